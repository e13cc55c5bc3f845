//! The seam between algorithms and wires.
//!
//! A transport moves what it can without blocking ([`Transport::try_send`],
//! [`Transport::try_recv`]) and knows how to sleep until more can be moved
//! ([`Transport::wait`]). The blocking forms that collectives use are built on these three, once,
//! here; a new kind of wire therefore only has to provide the primitives.
//!
//! Rules every kind keeps:
//!
//! - `WIRE-1` bytes between a pair of ranks on one lane arrive once, whole and in order; the lanes
//!   do not hold each other up.
//! - `WIRE-2` `try_send` and `try_recv` never block; 0 means "not now".
//!   Bytes that were not taken are offered again, unchanged, before any others on that lane: some
//!   of them may have left already.
//! - `WIRE-3` `wait` returns when something of its interest may move, the waker fired, or the
//!   deadline passed; it may also return for no reason. It never misses an event that came
//!   between the last `try_` call and itself.
//! - `WIRE-4` once the job's [`Abort`](crate::Abort) is raised, `wait` and every later `try_` call
//!   that would return 0 fail with its cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hvd_types::Rank;

use crate::{Error, MessageExchange, Result, SharedSlots, Waker};

/// Two independent streams between each pair of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Small messages of the negotiation.
    Control,
    /// Contents of tensors.
    Data,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Control, Self::Data];

    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Data => "data",
        }
    }
}

/// What a wait is for.
#[derive(Debug, Clone, Copy)]
pub enum Interest<'a> {
    /// Data may be sent to one peer or has arrived from another.
    Data {
        /// The peer to send to, if any.
        send: Option<Rank>,
        /// The peer to receive from, if any.
        recv: Option<Rank>,
    },
    /// A control message has arrived from any peer, or one of these peers can take more.
    Control {
        /// Peers for which control bytes are still held back.
        unsent: &'a [Rank],
    },
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Something may have moved, or the waker fired.
    Event,
    /// The deadline passed first.
    TimedOut,
}

/// How many connections to other ranks a transport has; any thread may look.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    /// The number now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, connections: usize) {
        self.0.fetch_add(connections, Ordering::Relaxed);
    }
}

/// One rank's end of the wires to all other ranks.
pub trait Transport: Send {
    /// This end's rank.
    fn rank(&self) -> Rank;

    /// Number of ranks in the job.
    fn size(&self) -> usize;

    /// What moves the bytes, for logs: `memory`, `shared memory`, `tcp`.
    fn kind(&self) -> &'static str;

    /// The host on which a rank runs, for error messages.
    fn host_of(&self, rank: Rank) -> &str;

    /// How long a peer may make no progress at all in the middle of an operation.
    fn progress_timeout(&self) -> Duration;

    /// Sends a beginning of `bytes` and returns its length; 0 if the peer can take nothing now.
    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize>;

    /// Receives into a beginning of `buffer` and returns its length; 0 if nothing is there.
    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize>;

    /// Sleeps until something of `interest` may move, the waker fires or the deadline passes.
    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake>;

    /// Waits until the peers have received what was sent on the data lane, where the wire would not
    /// move it by itself. Ends every use of the data lane; [`Self::exchange`] does it.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether an otherwise idle thread waits for the next control message: then it is
    /// worth a core to look for it for a while before sleeping. Not at first.
    fn set_eager(&mut self, eager: bool) {
        let _ = eager;
    }

    /// How many connections this end has; none where there is no network between ranks.
    fn connections(&self) -> ConnectionCount {
        ConnectionCount::default()
    }

    /// A handle with which any thread ends this transport's wait.
    fn waker(&self) -> Waker;

    /// The memory that `members`, of which this rank must be one, all see; none if there is none.
    /// Every member gets the same answer.
    fn shared_slots(&mut self, _members: &[Rank]) -> Option<SharedSlots<'_>> {
        None
    }

    /// Whole messages among `members`, of which this rank must be one, if their wires move those
    /// faster than pieces. Every member gets the same answer.
    fn messages(&mut self, _members: &[Rank]) -> Option<&mut dyn MessageExchange> {
        None
    }

    /// Sends all of `bytes` on the data lane.
    fn send(&mut self, peer: Rank, bytes: &[u8]) -> Result<()> {
        self.exchange(Some((peer, bytes)), None)
    }

    /// Fills `buffer` from the data lane.
    fn recv(&mut self, peer: Rank, buffer: &mut [u8]) -> Result<()> {
        self.exchange(None, Some((peer, buffer)))
    }

    /// Sends to one peer while receiving from another (or the same), so that a ring of ranks
    /// that all send first cannot lock up.
    fn exchange(
        &mut self,
        send: Option<(Rank, &[u8])>,
        recv: Option<(Rank, &mut [u8])>,
    ) -> Result<()> {
        let (to, mut unsent) = send.map_or((None, &[][..]), |(peer, bytes)| (Some(peer), bytes));
        let (from, mut unfilled) =
            recv.map_or((None, &mut [][..]), |(peer, buffer)| (Some(peer), buffer));
        let mut give_up = None;
        loop {
            let mut moved = 0;
            if let (Some(peer), false) = (to, unsent.is_empty()) {
                let sent = self.try_send(peer, Lane::Data, unsent)?;
                unsent = &unsent[sent..];
                moved += sent;
            }
            if let (Some(peer), false) = (from, unfilled.is_empty()) {
                let received = self.try_recv(peer, Lane::Data, unfilled)?;
                unfilled = &mut unfilled[received..];
                moved += received;
            }
            if unsent.is_empty() && unfilled.is_empty() {
                return self.flush();
            }
            if moved > 0 {
                give_up = None;
                continue;
            }
            let send = to.filter(|_| !unsent.is_empty());
            let recv = from.filter(|_| !unfilled.is_empty());
            let end = *give_up.get_or_insert_with(|| Instant::now() + self.progress_timeout());
            if self.wait(Interest::Data { send, recv }, Some(end))? == Wake::TimedOut {
                let peer = recv.or(send).unwrap_or(self.rank());
                return Err(self.stalled(peer));
            }
        }
    }

    /// The error for a peer that made no progress for that long.
    fn stalled(&self, peer: Rank) -> Error {
        let seconds = self.progress_timeout().as_secs();
        Error::Stalled {
            rank: peer,
            host: self.host_of(peer).to_owned(),
            seconds,
        }
    }
}
