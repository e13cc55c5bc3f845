//! The driver's port for agents. Both prove the job key to each other before anything else is said;
//! then the agent says which host it is, and the driver that it takes this connection. An agent
//! comes by all ways at once, and both must settle on the same one.
//! Agents that were started beforehand and call by themselves are in `calls.rs`.

mod calls;

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hvd_rendezvous::{
    Error as HandshakeError, JobKey, Purpose,
    accept::{AcceptedConnection, Acceptor},
    deadline::{self, Timed},
};
use tokio::sync::oneshot;

use crate::{link::SealedStream, protocol::TAKEN};

/// How long an agent may take to say which host it is.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(1);

type ExpectedAgents = Arc<Mutex<HashMap<u32, (AgentIdentity, oneshot::Sender<SealedStream>)>>>;

/// Where agents arrive.
pub(crate) struct AgentPort {
    port: u16,
    /// Whether agents call here by themselves.
    accepts_calls: bool,
    expected: ExpectedAgents,
    _acceptor: Acceptor<TcpListener>,
}

impl AgentPort {
    /// Opens a port for agents that know `key`.
    pub(crate) fn open(key: &JobKey) -> hvd_rendezvous::Result<Self> {
        let expected = ExpectedAgents::default();
        let shared = Arc::clone(&expected);
        let serve = move |accepted: AcceptedConnection<TcpStream>| receive(accepted, &shared);
        Self::start(0, key, expected, serve)
    }

    /// Opens this port for agents that were started beforehand with the token behind `key`.
    pub(crate) fn open_at(port: u16, key: &JobKey) -> hvd_rendezvous::Result<Self> {
        let expected = ExpectedAgents::default();
        let shared = Arc::clone(&expected);
        let serve =
            move |accepted: AcceptedConnection<TcpStream>| calls::receive(accepted, &shared);
        let port = Self::start(port, key, expected, serve)?;
        Ok(Self {
            accepts_calls: true,
            ..port
        })
    }

    fn start(
        port: u16,
        key: &JobKey,
        expected: ExpectedAgents,
        serve: impl Fn(AcceptedConnection<TcpStream>) -> hvd_rendezvous::Result<()>
        + Send
        + Sync
        + 'static,
    ) -> hvd_rendezvous::Result<Self> {
        let doing = "opening a port for agents";
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
            .map_err(HandshakeError::io(doing))?;
        let port = listener
            .local_addr()
            .map_err(HandshakeError::io(doing))?
            .port();
        let acceptor = Acceptor::start(listener, "hvd-agents", key, serve)?;
        Ok(Self {
            port,
            accepts_calls: false,
            expected,
            _acceptor: acceptor,
        })
    }

    /// Whether agents call here by themselves.
    pub(crate) fn accepts_calls(&self) -> bool {
        self.accepts_calls
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The connection of the agent of `host`, when it comes.
    pub(crate) fn expect(
        &self,
        host: u32,
        identity: AgentIdentity,
    ) -> oneshot::Receiver<SealedStream> {
        let (sender, receiver) = oneshot::channel();
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.insert(host, (identity, sender));
        receiver
    }
}

/// By what an agent that calls by itself is recognised as the one of a host.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentIdentity {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
}

fn receive(
    mut accepted: AcceptedConnection<TcpStream>,
    expected: &ExpectedAgents,
) -> hvd_rendezvous::Result<()> {
    let doing = "hearing from an agent";
    if accepted.purpose() != Purpose::Agent {
        return Err(HandshakeError::Refused("only agents may come here".into()));
    }
    let mut host = [0; 4];
    let (socket, session) = accepted.parts();
    let mut stream = session.over(Timed::new(socket, deadline::after(IDENTITY_TIMEOUT)));
    stream
        .read_exact(&mut host)
        .map_err(HandshakeError::io(doing))?;
    let host = u32::from_le_bytes(host);
    let mut expected = expected.lock().unwrap_or_else(PoisonError::into_inner);
    // The first one counts; the others see theirs closed.
    if let Some((_, sender)) = expected.remove(&host) {
        drop(expected);
        stream
            .write_all(&[TAKEN])
            .map_err(HandshakeError::io(doing))?;
        let _ = sender.send(take_over(accepted)?);
    }
    Ok(())
}

/// Takes a connection over from the port.
fn take_over(accepted: AcceptedConnection<TcpStream>) -> hvd_rendezvous::Result<SealedStream> {
    let (kept, session) = accepted.keep();
    let stream = kept
        .try_clone()
        .map_err(HandshakeError::io("keeping the connection of an agent"))?;
    Ok(SealedStream { stream, session })
}
