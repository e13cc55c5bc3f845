//! The connection from an agent to the driver. Both prove the job key to each other before anything
//! else is said; then the agent says which host it is, and the driver that it takes this
//! connection. The agent comes by all ways at once, and both must settle on the same one. An agent
//! that was started beforehand calls by itself, with its token, and introduces itself.
//! The driver's end is `driver/agent_port.rs`.

use std::{
    collections::HashSet,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

use hvd_rendezvous::{
    Error as HandshakeError, JobKey, Purpose,
    deadline::{self, Timed},
    frame, handshake,
};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    link::SealedStream,
    process::spawn_detached,
    protocol::{Assignment, Introduction, TAKEN},
};

/// How long an agent tries; beyond it the link goes through `ssh`, which is never wrong.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Tries all addresses of the driver at once; the connection that it takes counts.
pub(crate) async fn connect_back(assignment: &Assignment, key: &JobKey) -> Option<SealedStream> {
    let (sender, mut connected) = mpsc::unbounded_channel();
    let host = assignment.host;
    for address in addresses(assignment) {
        let (key, sender) = (key.clone(), sender.clone());
        spawn_detached("hvd-connect", move || match connect(address, &key, host) {
            Ok(stream) => drop(sender.send(stream)),
            Err(error) => tracing::debug!(%address, %error, "the driver does not answer"),
        });
    }
    drop(sender);
    timeout(CONNECT_TIMEOUT, connected.recv())
        .await
        .ok()
        .flatten()
}

/// What the driver says of itself, and where our `ssh` came from.
#[expect(
    clippy::disallowed_methods,
    reason = "the ssh server's word, no setting of ours"
)]
fn addresses(assignment: &Assignment) -> HashSet<SocketAddr> {
    let seen = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let seen = seen.split(' ').next().and_then(|first| first.parse().ok());
    let all = assignment.driver.iter().copied().chain(seen);
    all.map(|address: IpAddr| (address, assignment.driver_port).into())
        .collect()
}

pub(crate) fn connect(
    address: SocketAddr,
    key: &JobKey,
    host: u32,
) -> hvd_rendezvous::Result<SealedStream> {
    let doing = "connecting to the driver";
    let stream =
        TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(HandshakeError::io(doing))?;
    let mut timed = Timed::new(&stream, deadline::after(CONNECT_TIMEOUT));
    let mut session = handshake::connect(&mut timed, key, Purpose::Agent)?;
    let mut sealed = session.over(timed);
    sealed
        .write_all(&host.to_le_bytes())
        .map_err(HandshakeError::io(doing))?;
    let mut answer = [0];
    sealed
        .read_exact(&mut answer)
        .map_err(HandshakeError::io(doing))?;
    if answer != [TAKEN] {
        return Err(HandshakeError::Refused("the driver answers oddly".into()));
    }
    stream
        .set_read_timeout(None)
        .and_then(|()| stream.set_write_timeout(None))
        .map_err(HandshakeError::io(doing))?;
    Ok(SealedStream { stream, session })
}

/// Calls the driver at `address`, `host:port`, and introduces this host.
pub(crate) fn introduce(
    address: &str,
    token: &JobKey,
    name: &str,
) -> hvd_rendezvous::Result<SealedStream> {
    let doing = "calling the driver";
    let mut problem = io::Error::from(io::ErrorKind::NotFound);
    for address in address
        .to_socket_addrs()
        .map_err(HandshakeError::io(doing))?
    {
        match TcpStream::connect_timeout(&address, CALL_TIMEOUT) {
            Ok(stream) => return handshake_and_introduce(stream, token, name),
            Err(error) => problem = error,
        }
    }
    Err(HandshakeError::io(doing)(problem))
}

fn handshake_and_introduce(
    stream: TcpStream,
    token: &JobKey,
    name: &str,
) -> hvd_rendezvous::Result<SealedStream> {
    let doing = "calling the driver";
    let introduction = Introduction {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: name.to_owned(),
    };
    let bytes = serde_json::to_vec(&introduction).unwrap_or_default();
    let mut timed = Timed::new(&stream, deadline::after(CALL_TIMEOUT));
    let mut session = handshake::connect(&mut timed, token, Purpose::Agent)?;
    let mut sealed = session.over(timed);
    frame::write(&mut sealed, &bytes, doing)?;
    stream
        .set_read_timeout(None)
        .and_then(|()| stream.set_write_timeout(None))
        .map_err(HandshakeError::io(doing))?;
    Ok(SealedStream { stream, session })
}
