//! This rank's port: takes connections of other ranks in whatever order they come. During joining
//! it gives out lifelines when they are asked for; lanes are for [`super::late`], which takes it
//! over.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hvd_rendezvous::accept::{Acceptor, Guest};
use hvd_rendezvous::deadline::{self, Socket, Timed};
use hvd_rendezvous::{Error as StoreError, Purpose};
use hvd_types::Rank;

use super::claims::Claims;
use super::hello::{self, Expected, Verdict};
use super::{MeshOptions, network};
use crate::secure::SecureStream;
use crate::{Abort, Error, Lane, Result, Waker};

/// How long an authenticated connector may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);

/// Whose connection it is, what for, and its number among those.
pub(super) type Key = (Rank, Purpose, u8);

/// What ends a wait for connections.
#[derive(Debug)]
pub(super) enum News {
    /// Another rank has connected.
    Arrived(Key, SecureStream),
    /// This rank has tried to connect a lane; none if the other rank does.
    Dialed(Rank, Lane, Result<Option<Vec<SecureStream>>>),
    Aborted,
}

/// Where news goes, and who is told that there is some.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    sender: Sender<News>,
    waker: Arc<OnceLock<Waker>>,
}

impl Desk {
    pub(super) fn tell(&self, news: News) {
        // Nobody listens any more once this rank has left.
        let _ = self.sender.send(news);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Has `waker` called for all news from now on.
    pub(super) fn on_news(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }
}

#[derive(Debug)]
pub(super) struct Incoming {
    address: SocketAddr,
    abort: Abort,
    pub(super) desk: Desk,
    pub(super) news: Receiver<News>,
    pub(super) arrived: HashMap<Key, SecureStream>,
    expected: Arc<Expected>,
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
        let expected = Arc::new(Expected {
            rank: placement.rank,
            size: placement.size,
            attempt,
            claims: Claims::new(placement.rank),
        });
        let (sender, news) = mpsc::channel();
        let desk = Desk {
            sender,
            waker: Arc::default(),
        };
        let alarm = desk.clone();
        abort.on_raise(Waker::new(move || alarm.tell(News::Aborted)));
        let (told, judge) = (desk.clone(), Arc::clone(&expected));
        let serve = move |guest: Guest<TcpStream>| receive(guest, &judge, &told);
        let acceptor = Acceptor::start(listener, "hvd-mesh", &options.key, serve)?;
        Ok(Self {
            address,
            abort: abort.clone(),
            desk,
            news,
            arrived: HashMap::new(),
            expected,
            _acceptor: acceptor,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who connects which lane.
    pub(super) fn claims(&self) -> &Claims {
        &self.expected.claims
    }

    /// Waits for these connections; on a timeout returns the ranks of those that are missing.
    pub(super) fn take(
        &mut self,
        wanted: &[Key],
        end: Instant,
    ) -> Result<std::result::Result<Vec<SecureStream>, Vec<Rank>>> {
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
                Ok(News::Dialed(..)) => {}
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
    guest: Guest<TcpStream>,
    expected: &Expected,
    desk: &Desk,
) -> hvd_rendezvous::Result<()> {
    let doing = "hearing from another rank";
    let purpose = guest.purpose();
    // From here on the connection belongs to the mesh: the other end may use it as soon as it is
    // welcomed, and closing the port must not end it.
    let (kept, mut session) = guest.keep();
    let timed = Timed::new(&*kept, deadline::after(HELLO));
    let heard = hello::hear(&mut session.over(timed), purpose, expected);
    let (verdict, rank, number) = heard.map_err(StoreError::io(doing))?;
    if verdict == Verdict::NotExpected {
        return Err(StoreError::Refused(format!(
            "a connection for {purpose:?} is not expected"
        )));
    }
    if verdict == Verdict::Welcome {
        kept.limit_read(None).map_err(StoreError::io(doing))?;
        kept.limit_write(None).map_err(StoreError::io(doing))?;
        let stream = kept.try_clone().map_err(StoreError::io(doing))?;
        // After the answer, because whoever takes the connection may send on it at once.
        let secure = SecureStream { stream, session };
        desk.tell(News::Arrived((rank, purpose, number), secure));
    }
    Ok(())
}
