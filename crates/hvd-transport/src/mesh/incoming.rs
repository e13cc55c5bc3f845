//! This rank's port during joining: takes connections of higher ranks in whatever order they
//! come, and gives them out when they are asked for.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use hvd_rendezvous::accept::{Acceptor, Guest};
use hvd_rendezvous::deadline::{self, Socket, Timed};
use hvd_rendezvous::{Error as StoreError, Purpose};
use hvd_types::Rank;

use super::hello::{self, Expected};
use super::{MeshOptions, network};
use crate::{Abort, Error, Result, Waker};

/// How long an authenticated connector may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);

/// Whose connection it is, what for, and its number among those.
pub(super) type Key = (Rank, Purpose, u8);

/// What ends a wait for connections.
enum News {
    Arrived(Key, TcpStream),
    Aborted,
}

pub(super) struct Incoming {
    address: SocketAddr,
    abort: Abort,
    news: Receiver<News>,
    arrived: HashMap<Key, TcpStream>,
    /// Closes the port when joining is over.
    _acceptor: Acceptor<TcpListener>,
}

impl Incoming {
    /// Opens a port where the options want it.
    pub(super) fn listen(options: &MeshOptions, abort: &Abort) -> Result<Self> {
        let listener = network::listen(options)?;
        let address = listener
            .local_addr()
            .map_err(Error::io("opening a port for the other ranks"))?;
        let placement = &options.placement;
        let (rank, size) = (placement.rank, placement.size);
        let expected = Expected {
            rank,
            size,
            generation: options.generation,
        };
        let (sender, news) = mpsc::channel();
        let alarm = sender.clone();
        abort.on_raise(Waker::new(move || {
            // Nobody listens any more once joining is over.
            let _ = alarm.send(News::Aborted);
        }));
        let serve = move |guest: &Guest<TcpStream>| receive(guest, expected, &sender);
        let acceptor = Acceptor::start(listener, "hvd-mesh", &options.key, serve)?;
        let (abort, arrived) = (abort.clone(), HashMap::new());
        Ok(Self {
            address,
            abort,
            news,
            arrived,
            _acceptor: acceptor,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for these connections; on a timeout returns the ranks of those that are missing.
    pub(super) fn take(
        &mut self,
        wanted: &[Key],
        end: Instant,
    ) -> Result<std::result::Result<Vec<TcpStream>, Vec<Rank>>> {
        let absent = |key: &&Key| !self.arrived.contains_key(*key);
        let mut missing: HashSet<Key> = wanted.iter().filter(absent).copied().collect();
        while !missing.is_empty() {
            match self
                .news
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                // The first connection of a kind counts; a second is a mistake of its sender.
                Ok(News::Arrived(key, stream)) => {
                    missing.remove(&key);
                    self.arrived.entry(key).or_insert(stream);
                }
                Ok(News::Aborted) => self.abort.check()?,
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

/// Serves one authenticated connection: hears who it is and passes it on.
fn receive(
    guest: &Guest<TcpStream>,
    expected: Expected,
    sender: &Sender<News>,
) -> hvd_rendezvous::Result<()> {
    let doing = "hearing from another rank";
    let (stream, purpose) = (guest.stream(), guest.purpose());
    let mut timed = Timed::new(stream, deadline::after(HELLO));
    // From here on the connection belongs to the mesh: the other end may use it as soon as it is
    // welcomed, and closing the port must not end it.
    let kept = guest.keep().try_clone().map_err(StoreError::io(doing))?;
    let Some((rank, number)) =
        hello::hear(&mut timed, purpose, expected).map_err(StoreError::io(doing))?
    else {
        return Err(StoreError::Refused(format!(
            "a connection for {purpose:?} is not expected"
        )));
    };
    stream.limit_read(None).map_err(StoreError::io(doing))?;
    stream.limit_write(None).map_err(StoreError::io(doing))?;
    // Joining may have been given up; then nobody takes it.
    let _ = sender.send(News::Arrived((rank, purpose, number), kept));
    Ok(())
}
