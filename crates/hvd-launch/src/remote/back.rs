//! The connection from an agent back to the driver. Both prove the job key to each other before
//! anything else is said; then the agent tells which host it is, and the driver that it takes this
//! connection. An agent comes by all ways at once, and both must settle on the same one.
//! Agents that were started beforehand and call by themselves are in `calls.rs`.

use std::{
    collections::{HashMap, HashSet},
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hvd_rendezvous::{
    Error as HandshakeError, JobKey, Purpose, SecureSession,
    accept::{AcceptedConnection, Acceptor},
    deadline::{self, Timed},
    handshake,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

mod calls;

use super::message::Assignment;
use crate::exec::aside;
pub(super) use calls::introduce;

/// How long an agent tries; beyond it the link goes through `ssh`, which is never wrong.
const PATIENCE: Duration = Duration::from_secs(1);

/// Said by the driver on the connection that it takes.
const TAKEN: u8 = 1;

type Waiting = Arc<Mutex<HashMap<u32, (KnownAs, oneshot::Sender<SecureStream>)>>>;

/// A connection between driver and agent, and what protects it.
#[derive(Debug)]
pub(super) struct SecureStream {
    pub(super) stream: TcpStream,
    pub(super) session: SecureSession,
}

/// Where agents arrive.
pub(super) struct Door {
    port: u16,
    /// Whether agents call here by themselves.
    is_public: bool,
    waiting: Waiting,
    _acceptor: Acceptor<TcpListener>,
}

impl Door {
    /// Opens a port for agents that were told `key`.
    pub(super) fn open(key: &JobKey) -> hvd_rendezvous::Result<Self> {
        let waiting = Waiting::default();
        let expected = Arc::clone(&waiting);
        let serve = move |guest: AcceptedConnection<TcpStream>| receive(guest, &expected);
        Self::start(0, key, waiting, serve)
    }

    /// Opens this port for agents that were started beforehand with the token behind `key`.
    pub(super) fn open_at(port: u16, key: &JobKey) -> hvd_rendezvous::Result<Self> {
        let waiting = Waiting::default();
        let expected = Arc::clone(&waiting);
        let serve = move |guest: AcceptedConnection<TcpStream>| calls::receive(guest, &expected);
        let door = Self::start(port, key, waiting, serve)?;
        Ok(Self {
            is_public: true,
            ..door
        })
    }

    fn start(
        port: u16,
        key: &JobKey,
        waiting: Waiting,
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
            is_public: false,
            waiting,
            _acceptor: acceptor,
        })
    }

    /// Whether agents call here by themselves.
    pub(super) fn is_public(&self) -> bool {
        self.is_public
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The connection of the agent of `host`, when it comes.
    pub(super) fn expect(&self, host: u32, known_as: KnownAs) -> oneshot::Receiver<SecureStream> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(host, (known_as, sender));
        receiver
    }
}

/// By what an agent that calls by itself is recognised as the one of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownAs {
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
}

fn receive(
    mut guest: AcceptedConnection<TcpStream>,
    waiting: &Waiting,
) -> hvd_rendezvous::Result<()> {
    let doing = "hearing from an agent";
    if guest.purpose() != Purpose::Agent {
        return Err(HandshakeError::Refused("only agents may come here".into()));
    }
    let mut host = [0; 4];
    let (socket, session) = guest.parts();
    let mut stream = session.over(Timed::new(socket, deadline::after(PATIENCE)));
    stream
        .read_exact(&mut host)
        .map_err(HandshakeError::io(doing))?;
    let host = u32::from_le_bytes(host);
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    // The first one counts; the others see theirs closed.
    if let Some((_, expected)) = waiting.remove(&host) {
        drop(waiting);
        stream
            .write_all(&[TAKEN])
            .map_err(HandshakeError::io(doing))?;
        let _ = expected.send(keep(guest)?);
    }
    Ok(())
}

/// Takes a connection over from the door.
fn keep(guest: AcceptedConnection<TcpStream>) -> hvd_rendezvous::Result<SecureStream> {
    let (kept, session) = guest.keep();
    let stream = kept
        .try_clone()
        .map_err(HandshakeError::io("keeping the connection of an agent"))?;
    Ok(SecureStream { stream, session })
}

/// Tries all addresses of the driver at once; the connection that it takes counts.
pub(super) async fn reach(assignment: &Assignment, key: &JobKey) -> Option<SecureStream> {
    let (sender, mut connected) = mpsc::unbounded_channel();
    let host = assignment.host;
    for address in addresses(assignment) {
        let (key, sender) = (key.clone(), sender.clone());
        aside("hvd-back", move || match knock(address, &key, host) {
            Ok(stream) => drop(sender.send(stream)),
            Err(error) => tracing::debug!(%address, %error, "the driver does not answer"),
        });
    }
    drop(sender);
    timeout(PATIENCE, connected.recv()).await.ok().flatten()
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

fn knock(address: SocketAddr, key: &JobKey, host: u32) -> hvd_rendezvous::Result<SecureStream> {
    let doing = "connecting to the driver";
    let stream =
        TcpStream::connect_timeout(&address, PATIENCE).map_err(HandshakeError::io(doing))?;
    let mut timed = Timed::new(&stream, deadline::after(PATIENCE));
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
    Ok(SecureStream { stream, session })
}

#[cfg(test)]
mod tampering;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn assignment(host: u32, key: &JobKey, port: u16) -> Assignment {
        let loopback = |last| IpAddr::from([127, 0, 0, last]);
        Assignment {
            version: String::new(),
            host,
            name: "b".to_owned(),
            secret: crate::remote::Secret::Key(key.to_hex()),
            driver: (1..9).map(loopback).collect(),
            driver_port: port,
            command: Vec::new(),
            directory: PathBuf::new(),
            environment: Vec::new(),
            port_range: None,
            ranks: Vec::new(),
        }
    }

    #[tokio::test]
    async fn both_sides_settle_on_the_same_of_many_connections() {
        let key = JobKey::generate().unwrap();
        let door = Door::open(&key).unwrap();
        for host in 0..20_u32 {
            let arrival = door.expect(host, KnownAs::default());
            let assignment = assignment(host, &key, door.port());
            let mut agent = reach(&assignment, &key).await.unwrap();
            let mut driver = arrival.await.unwrap();
            let mut ours = agent.session.over(&agent.stream);
            ours.write_all(&host.to_le_bytes()).unwrap();
            let mut heard = [0; 4];
            let mut theirs = driver.session.over(&driver.stream);
            theirs.read_exact(&mut heard).unwrap();
            assert_eq!(u32::from_le_bytes(heard), host);
        }
    }
}
