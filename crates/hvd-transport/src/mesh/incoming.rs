//! This rank's port: takes connections of other ranks in whatever order they come. During joining
//! it gives out lifelines when they are asked for; lanes are for [`super::lazy_connect`], which
//! takes it over.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hvd_rendezvous::accept::{AcceptedConnection, Acceptor};
use hvd_rendezvous::deadline::{self, Socket, Timed};
use hvd_rendezvous::{Error as StoreError, Purpose};
use hvd_types::Rank;

use super::hello::{self, ExpectedPeers, HelloReply};
use super::tie_break::TieBreak;
use super::{MeshOptions, network};
use crate::secure_connection::SecureConnection;
use crate::{Abort, Error, Lane, Result, Waker};

/// How long an authenticated connector may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);

/// A connection's rank, its purpose, and its number among those.
pub(super) type ConnectionKey = (Rank, Purpose, u8);

/// What ends a wait for connections.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// Another rank has connected.
    Arrived(ConnectionKey, SecureConnection),
    /// This rank has tried to connect a lane; none if the other rank does.
    Dialed(Rank, Lane, Result<Option<Vec<SecureConnection>>>),
    Aborted,
}

/// Where events go, and the waker that is called for each.
#[derive(Debug, Clone)]
pub(super) struct EventSender {
    sender: Sender<ConnectionEvent>,
    waker: Arc<OnceLock<Waker>>,
}

impl EventSender {
    pub(super) fn send(&self, event: ConnectionEvent) {
        // There is no receiver any more once this rank has left.
        let _ = self.sender.send(event);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Has `waker` called for all events from now on.
    pub(super) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }
}

#[derive(Debug)]
pub(super) struct Incoming {
    address: SocketAddr,
    abort: Abort,
    pub(super) event_sender: EventSender,
    pub(super) events: Receiver<ConnectionEvent>,
    pub(super) arrived: HashMap<ConnectionKey, SecureConnection>,
    expected: Arc<ExpectedPeers>,
    /// Closes the port when this rank leaves.
    _acceptor: Acceptor<TcpListener>,
}

impl Incoming {
    /// Opens a port where the options want it.
    pub(super) fn listen(options: &MeshOptions, attempt: u64, abort: &Abort) -> Result<Self> {
        let listener = network::listen(options)?;
        let address = listener
            .local_addr()
            .map_err(Error::io("opening a port for the other ranks"))?;
        let placement = &options.placement;
        let expected = Arc::new(ExpectedPeers {
            rank: placement.rank,
            size: placement.size,
            attempt,
            tie_break: TieBreak::new(placement.rank),
        });
        let (sender, events) = mpsc::channel();
        let event_sender = EventSender {
            sender,
            waker: Arc::default(),
        };
        let on_abort = event_sender.clone();
        abort.on_raise(Waker::new(move || on_abort.send(ConnectionEvent::Aborted)));
        let (sender, expected_peers) = (event_sender.clone(), Arc::clone(&expected));
        let serve = move |accepted: AcceptedConnection<TcpStream>| {
            receive(accepted, &expected_peers, &sender)
        };
        let acceptor = Acceptor::start(listener, "hvd-mesh", &options.key, serve)?;
        Ok(Self {
            address,
            abort: abort.clone(),
            event_sender,
            events,
            arrived: HashMap::new(),
            expected,
            _acceptor: acceptor,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who connects which lane.
    pub(super) fn tie_break(&self) -> &TieBreak {
        &self.expected.tie_break
    }

    /// Waits for these connections; on a timeout returns the ranks of those that are missing.
    pub(super) fn take(
        &mut self,
        wanted: &[ConnectionKey],
        end: Instant,
    ) -> Result<std::result::Result<Vec<SecureConnection>, Vec<Rank>>> {
        let absent = |key: &&ConnectionKey| !self.arrived.contains_key(*key);
        let mut missing: HashSet<ConnectionKey> = wanted.iter().filter(absent).copied().collect();
        while !missing.is_empty() {
            match self
                .events
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                // The first connection of a kind counts; a second is a mistake of its sender.
                Ok(ConnectionEvent::Arrived(key, stream)) => {
                    missing.remove(&key);
                    self.arrived.entry(key).or_insert(stream);
                }
                Ok(ConnectionEvent::Aborted) => self.abort.check()?,
                Ok(ConnectionEvent::Dialed(..)) => {}
                Err(_) => {
                    let mut ranks: Vec<Rank> = missing.iter().map(|&(rank, ..)| rank).collect();
                    ranks.sort_unstable();
                    ranks.dedup();
                    return Ok(Err(ranks));
                }
            }
        }
        let streams = wanted.iter().filter_map(|key| self.arrived.remove(key));
        Ok(Ok(streams.collect()))
    }
}

/// Serves one authenticated connection: reads its hello and passes it on.
fn receive(
    accepted: AcceptedConnection<TcpStream>,
    expected: &ExpectedPeers,
    event_sender: &EventSender,
) -> hvd_rendezvous::Result<()> {
    let doing = "receiving another rank's hello";
    let purpose = accepted.purpose();
    // From here on the connection belongs to the mesh: the other end may use it as soon as it is
    // welcomed, and closing the port must not end it.
    let (kept, mut session) = accepted.keep();
    let timed = Timed::new(&*kept, deadline::after(HELLO));
    let hello = hello::receive(&mut session.over(timed), purpose, expected);
    let (reply, rank, number) = hello.map_err(StoreError::io(doing))?;
    if reply == HelloReply::NotExpected {
        return Err(StoreError::Refused(format!(
            "a connection for {purpose:?} is not expected"
        )));
    }
    if reply == HelloReply::Welcome {
        kept.limit_read(None).map_err(StoreError::io(doing))?;
        kept.limit_write(None).map_err(StoreError::io(doing))?;
        let stream = kept.try_clone().map_err(StoreError::io(doing))?;
        // After the answer, because the receiver of the connection may send on it at once.
        let secure = SecureConnection { stream, session };
        event_sender.send(ConnectionEvent::Arrived((rank, purpose, number), secure));
    }
    Ok(())
}
