//! The connection from an agent back to the driver. Both prove the job key to each other before
//! anything else is said; then the agent tells which host it is.

use std::{
    collections::{HashMap, HashSet},
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use hvd_rendezvous::{
    Error as HandshakeError, JobKey, Purpose,
    accept::{Acceptor, Guest},
    deadline::{self, Timed},
    handshake,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::message::Assignment;

/// How long an agent tries; beyond it the link goes through `ssh`, which is never wrong.
const PATIENCE: Duration = Duration::from_secs(1);

type Waiting = Arc<Mutex<HashMap<u32, oneshot::Sender<TcpStream>>>>;

/// Where agents arrive.
pub(super) struct Door {
    port: u16,
    waiting: Waiting,
    _acceptor: Acceptor<TcpListener>,
}

impl Door {
    /// Opens a port for agents that know `key`.
    pub(super) fn open(key: &JobKey) -> Result<Self, HandshakeError> {
        let doing = "opening a port for agents";
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .map_err(HandshakeError::io(doing))?;
        let port = listener
            .local_addr()
            .map_err(HandshakeError::io(doing))?
            .port();
        let waiting = Waiting::default();
        let expected = Arc::clone(&waiting);
        let acceptor = Acceptor::start(listener, "hvd-agents", key, move |guest| {
            receive(guest, &expected)
        })?;
        Ok(Self {
            port,
            waiting,
            _acceptor: acceptor,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The connection of the agent of `host`, when it comes.
    pub(super) fn expect(&self, host: u32) -> oneshot::Receiver<TcpStream> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(host, sender);
        receiver
    }
}

fn receive(guest: &Guest<TcpStream>, waiting: &Waiting) -> hvd_rendezvous::Result<()> {
    let doing = "hearing from an agent";
    if guest.purpose() != Purpose::Agent {
        return Err(HandshakeError::Refused("only agents may come here".into()));
    }
    let mut host = [0; 4];
    let mut stream = Timed::new(guest.stream(), deadline::after(PATIENCE));
    stream
        .read_exact(&mut host)
        .map_err(HandshakeError::io(doing))?;
    let host = u32::from_le_bytes(host);
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    // An agent may arrive by several ways; the first one counts.
    if let Some(expected) = waiting.remove(&host) {
        let kept = guest.keep();
        let stream = kept.try_clone().map_err(HandshakeError::io(doing))?;
        let _ = expected.send(stream);
    }
    Ok(())
}

/// Tries all addresses of the driver at once; the first connection counts.
pub(super) async fn reach(assignment: &Assignment, key: &JobKey) -> Option<TcpStream> {
    let (sender, mut connected) = mpsc::unbounded_channel();
    let host = assignment.host;
    for address in addresses(assignment) {
        let (key, sender) = (key.clone(), sender.clone());
        // Not the runtime's threads: it would wait at its end for those that are still trying.
        thread::spawn(move || match knock(address, &key, host) {
            Ok(stream) => drop(sender.send(stream)),
            Err(error) => tracing::debug!(%address, %error, "the driver does not answer"),
        });
    }
    drop(sender);
    timeout(PATIENCE, connected.recv()).await.ok().flatten()
}

/// What the driver says of itself, and where our `ssh` came from.
fn addresses(assignment: &Assignment) -> HashSet<SocketAddr> {
    let seen = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let seen = seen.split(' ').next().and_then(|first| first.parse().ok());
    let all = assignment.driver.iter().copied().chain(seen);
    all.map(|address: IpAddr| (address, assignment.driver_port).into())
        .collect()
}

fn knock(address: SocketAddr, key: &JobKey, host: u32) -> hvd_rendezvous::Result<TcpStream> {
    let doing = "connecting to the driver";
    let stream =
        TcpStream::connect_timeout(&address, PATIENCE).map_err(HandshakeError::io(doing))?;
    let mut timed = Timed::new(&stream, deadline::after(PATIENCE));
    handshake::connect(&mut timed, key, Purpose::Agent)?;
    timed
        .write_all(&host.to_le_bytes())
        .map_err(HandshakeError::io(doing))?;
    stream
        .set_read_timeout(None)
        .and_then(|()| stream.set_write_timeout(None))
        .map_err(HandshakeError::io(doing))?;
    Ok(stream)
}
