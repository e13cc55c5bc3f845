//! Ranks as threads of one process: a queue per ordered pair of ranks and lane, behind one lock
//! and one condition variable per receiving rank.
//!
//! For tests, and for a job of one rank. It is as strict as the wires it stands for: bounded
//! queues, partial sends and receives, and an [`Abort`] of its own per rank, so that the death of
//! a rank can be simulated with [`MemTransport::die`].

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hvd_types::Rank;

use crate::{Abort, Failure, Interest, Lane, Result, Transport, Wake, Waker};

/// Bytes that one queue holds before its sender has to wait.
const DEFAULT_CAPACITY: usize = 64 * 1024;

/// One rank's end of an in-memory mesh.
#[derive(Debug)]
pub struct MemTransport {
    rank: Rank,
    mesh: Arc<MemMesh>,
    abort: Abort,
    progress_timeout: Duration,
    host: String,
}

#[derive(Debug)]
struct MemMesh {
    capacity: usize,
    inboxes: Vec<Inbox>,
    aborts: Vec<Abort>,
}

/// Everything one rank waits for.
#[derive(Debug)]
struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
}

#[derive(Debug)]
struct InboxState {
    /// Queues by sender and lane.
    queues: Vec<[VecDeque<u8>; 2]>,
    /// Counts everything this rank may wait for: arrivals, space at peers, wakers.
    events: u64,
    /// The value of `events` when this rank's last wait ended.
    seen: u64,
}

/// Creates a mesh of `size` ranks and returns their ends, in order of rank.
pub fn mesh(size: usize) -> Vec<MemTransport> {
    mesh_with(size, DEFAULT_CAPACITY, Duration::from_secs(30))
}

/// As [`mesh`], with queues of `capacity` bytes and the given progress timeout.
pub fn mesh_with(size: usize, capacity: usize, progress_timeout: Duration) -> Vec<MemTransport> {
    let inboxes = (0..size).map(|_| Inbox::new(size)).collect();
    let aborts = (0..size).map(|_| Abort::new()).collect();
    let mesh = Arc::new(MemMesh {
        capacity,
        inboxes,
        aborts,
    });
    (0..size)
        .map(|index| MemTransport::new(Rank::from_index(index), &mesh, progress_timeout))
        .collect()
}

impl Inbox {
    fn new(size: usize) -> Self {
        let queues = (0..size)
            .map(|_| [VecDeque::new(), VecDeque::new()])
            .collect();
        let state = Mutex::new(InboxState {
            queues,
            events: 0,
            seen: 0,
        });
        Self {
            state,
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.lock().events += 1;
        self.changed.notify_all();
    }
}

impl MemTransport {
    fn new(rank: Rank, mesh: &Arc<MemMesh>, progress_timeout: Duration) -> Self {
        let abort = mesh.aborts[rank.index()].clone();
        let this = Self {
            rank,
            mesh: Arc::clone(mesh),
            abort,
            progress_timeout,
            host: "localhost".to_owned(),
        };
        this.abort.on_raise(this.waker());
        this
    }

    /// What says to this rank that the job is over.
    pub fn abort(&self) -> Abort {
        self.abort.clone()
    }

    /// Simulates this rank's sudden death: every other rank learns of it.
    pub fn die(self) {
        let reason = "closed its connection without a goodbye".to_owned();
        let failure = Failure {
            rank: self.rank,
            host: self.host,
            reason,
        };
        for (index, abort) in self.mesh.aborts.iter().enumerate() {
            if index != self.rank.index() {
                abort.raise(failure.clone());
            }
        }
    }

    fn inbox(&self) -> &Inbox {
        &self.mesh.inboxes[self.rank.index()]
    }
}

impl Transport for MemTransport {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.mesh.inboxes.len()
    }

    fn kind(&self) -> &'static str {
        "memory"
    }

    fn host_of(&self, _rank: Rank) -> &str {
        &self.host
    }

    fn progress_timeout(&self) -> Duration {
        self.progress_timeout
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let inbox = &self.mesh.inboxes[peer.index()];
        let mut state = inbox.lock();
        let queue = &mut state.queues[self.rank.index()][lane as usize];
        let sent = bytes.len().min(self.mesh.capacity - queue.len());
        queue.extend(&bytes[..sent]);
        state.events += u64::from(sent > 0);
        drop(state);
        if sent == 0 {
            self.abort.check()?;
        } else {
            inbox.changed.notify_all();
        }
        Ok(sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let mut state = self.inbox().lock();
        let queue = &mut state.queues[peer.index()][lane as usize];
        let received = buffer.len().min(queue.len());
        for (byte, slot) in queue.drain(..received).zip(buffer) {
            *slot = byte;
        }
        drop(state);
        if received == 0 {
            self.abort.check()?;
        } else {
            self.mesh.inboxes[peer.index()].notify();
        }
        Ok(received)
    }

    fn wait(&mut self, _interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        let inbox = self.inbox();
        let mut state = inbox.lock();
        while state.events == state.seen {
            self.abort.check()?;
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Wake::TimedOut);
            }
            let left = left.unwrap_or(Duration::MAX);
            state = match inbox.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        // Any event ends the wait, wanted or not; the caller looks for itself. Events that come
        // while it looks stay unseen and end the next wait.
        state.seen = state.events;
        drop(state);
        self.abort.check()?;
        Ok(Wake::Event)
    }

    fn waker(&self) -> Waker {
        // Weak, because the mesh holds the aborts and those hold wakers.
        let (mesh, index) = (Arc::downgrade(&self.mesh), self.rank.index());
        Waker::new(move || {
            if let Some(mesh) = mesh.upgrade() {
                mesh.inboxes[index].notify();
            }
        })
    }
}
