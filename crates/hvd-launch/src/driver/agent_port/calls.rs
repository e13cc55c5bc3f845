//! Agents that were started beforehand call the driver: they prove the token, introduce themselves,
//! and are taken for the host that has their name or their address.

use std::{
    io::{self, Read},
    net::{IpAddr, TcpStream},
    sync::PoisonError,
    time::Duration,
};

use hvd_rendezvous::{
    Error as HandshakeError, Purpose,
    accept::AcceptedConnection,
    deadline::{self, Timed},
    frame,
};

use super::{AgentIdentity, ExpectedAgents};
use crate::protocol::{INTRODUCTION_LIMIT, Introduction};

/// How long a call may take.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);

/// For errors.
const DOING: &str = "reading the introduction of an agent";

/// Reads an agent's introduction and gives its connection to the task that expects it.
pub(super) fn receive(
    mut accepted: AcceptedConnection<TcpStream>,
    expected: &ExpectedAgents,
) -> hvd_rendezvous::Result<()> {
    if accepted.purpose() != Purpose::Agent {
        return Err(HandshakeError::Refused("only agents may come here".into()));
    }
    let (socket, session) = accepted.parts();
    let timed = Timed::new(socket, deadline::after(IDENTITY_TIMEOUT));
    let introduction = read(&mut session.over(timed))?;
    let from = accepted
        .stream()
        .peer_addr()
        .map_err(HandshakeError::io(DOING))?;
    let mut expected = expected.lock().unwrap_or_else(PoisonError::into_inner);
    let hosts = expected
        .iter()
        .map(|(host, (identity, _))| (*host, identity));
    let Some(host) = recognise(&introduction, from.ip().to_canonical(), &hosts) else {
        let name = introduction.name;
        return Err(HandshakeError::Refused(format!(
            "an agent called `{name}` is not expected"
        )));
    };
    if let Some((_, sender)) = expected.remove(&host) {
        let _ = sender.send(super::take_over(accepted)?);
    }
    Ok(())
}

/// By its name, else by the beginning of its name, else by its address.
fn recognise<'a>(
    introduction: &Introduction,
    from: IpAddr,
    hosts: &(impl Iterator<Item = (u32, &'a AgentIdentity)> + Clone),
) -> Option<u32> {
    if introduction.version != env!("CARGO_PKG_VERSION") {
        let theirs = &introduction.version;
        tracing::warn!("the agent of {from} has horovod {theirs}; it cannot take part");
        return None;
    }
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let name = &introduction.name;
    let by = |is_it: &dyn Fn(&AgentIdentity) -> bool| {
        let mut hosts = hosts.clone();
        hosts.find(|(_, known)| is_it(known)).map(|(host, _)| host)
    };
    by(&|known| known.name.eq_ignore_ascii_case(name))
        .or_else(|| by(&|known| short(&known.name) == short(name)))
        .or_else(|| by(&|known| known.addresses.contains(&from)))
}

fn read(stream: &mut impl Read) -> hvd_rendezvous::Result<Introduction> {
    let bytes = frame::read(stream, INTRODUCTION_LIMIT, DOING)?;
    let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof.into());
    bytes
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))
        .map_err(HandshakeError::io(DOING))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(name: &str, from: &str) -> Option<u32> {
        let known = |name: &str, address: &str| AgentIdentity {
            name: name.to_owned(),
            addresses: vec![address.parse().unwrap()],
        };
        let hosts = [
            known("node7.lab", "10.0.0.7"),
            known("node8", "10.0.0.8"),
            known("10.0.0.9", "10.0.0.9"),
        ];
        let introduction = Introduction {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
        };
        let from = from.parse().unwrap();
        recognise(&introduction, from, &(0..).zip(&hosts))
    }

    #[test]
    fn an_agent_is_known_by_its_name_or_its_address() {
        assert_eq!(recognised("node7", "192.0.2.1"), Some(0));
        assert_eq!(recognised("NODE8.lab", "192.0.2.1"), Some(1));
        assert_eq!(
            recognised("node8", "10.0.0.7"),
            Some(1),
            "a name says more than an address"
        );
        assert_eq!(recognised("b5a7e1", "10.0.0.9"), Some(2));
        assert_eq!(recognised("b5a7e1", "192.0.2.1"), None);
    }
}
