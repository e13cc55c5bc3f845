//! Ranks on different hosts: a connection for control per pair of ranks, and a [`Bundle`] for data,
//! made when they are first needed ([`links`]).
//!
//! A connection that ends is not an error by itself, because a rank that leaves in peace closes
//! it too. Whether a rank died is the business of the [`crate::Lifeline`], whose report is at most
//! milliseconds behind. So:
//!
//! - `TCP-1` the end of a connection is recorded; nothing moves on it any more, and a lane that has
//!   come to it does not go on.
//! - `TCP-2` a wait that needs that peer gives the lifeline [`GRACE`] to name the rank that failed
//!   first, and then fails with this one. Control messages are needed from rank 0, and on rank 0
//!   from every peer; a rank that shuts down does so after the last of them. The same goes for a
//!   lane that could not be connected, and for one that is not connected to a rank that has left.
//! - `TCP-3` a lane is connected by its first sender. A rank that waits for another's bytes waits
//!   for its connection too, and learns of its death like any other rank.

mod bundle;
mod close;
mod connection;
mod links;
#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_rendezvous::session::TAMPERED;
use hvd_types::Rank;
use rustix::event::{PollFd, PollFlags};

use crate::os::event::{Flag, poll};
use crate::rank_context::RankContext;
use crate::spin::{self, Spin, SpinPolicy};
use crate::{ConnectionCount, Error, Failure, Interest, Lane, Result, Transport, Wake, Waker};
pub(crate) use bundle::{Bundle, STRIPE};
pub(crate) use connection::Connection;
use links::LaneState;
pub(crate) use links::{LaneConnector, Links};

/// How long a wait for a peer that closed its connection waits for the reason.
const GRACE: Duration = Duration::from_secs(1);

/// One rank's connections to all others.
#[derive(Debug)]
pub(crate) struct Tcp {
    context: RankContext,
    links: Links,
    /// Raised by wakers and the abort.
    flag: Arc<Flag>,
    /// Kept from one wait to the next for its memory.
    wanted: Vec<PolledConnection>,
    /// How eager waits for control messages spin.
    spin: SpinPolicy,
    /// Whether a thread waits for the next control message.
    eager: bool,
    /// The process whose connections these are; a forked child must not close them.
    process: u32,
}

/// A connection that a wait is about: whose, on which lane, which of the lane's, for what.
#[derive(Debug, Clone, Copy)]
struct PolledConnection {
    peer: Rank,
    lane: Lane,
    strand: usize,
    flags: PollFlags,
}

impl Tcp {
    /// Waits of this rank also end when `flag` is raised.
    pub(crate) fn new(context: RankContext, links: Links, flag: Arc<Flag>) -> Self {
        let (wanted, process) = (Vec::new(), std::process::id());
        let spin = SpinPolicy::new(spin::CONNECTIONS, context.has_cores);
        let mut this = Self {
            context,
            links,
            flag,
            wanted,
            spin,
            eager: false,
            process,
        };
        this.context.abort.on_raise(this.waker());
        this.links.set_waker(this.waker());
        this
    }

    /// Nothing moves between a rank and itself, nor to those that are reached otherwise.
    fn check(&self, peer: Rank, lane: Lane) -> Result<()> {
        match self.links.get(peer, lane) {
            LaneState::None => Err(no_peer(self.context.rank, peer)),
            _ => self.context.abort.check(),
        }
    }

    fn look(&self, peer: Rank, lane: Lane) -> Option<&Bundle> {
        self.links.get(peer, lane).bundle()
    }

    /// Has the lanes connected on which something is to be sent.
    fn connect_lanes(&mut self, interest: Interest<'_>) {
        let (peers, lane) = match &interest {
            Interest::Data { send, .. } => (send.as_slice(), Lane::Data),
            Interest::Control { unsent } => (*unsent, Lane::Control),
        };
        for &peer in peers {
            self.links.connect(peer, lane);
        }
    }

    /// Fills `wanted` with the living connections that `interest` is about.
    fn choose(&self, interest: Interest<'_>, wanted: &mut Vec<PolledConnection>) {
        wanted.clear();
        match interest {
            Interest::Data { send, recv } => {
                wanted.extend(send.and_then(|peer| self.to_send(peer, Lane::Data)));
                wanted.extend(recv.and_then(|peer| self.to_recv(peer, Lane::Data)));
            }
            Interest::Control { unsent } => {
                let peers = (0..self.links.lanes.len()).map(Rank::from_index);
                wanted.extend(peers.filter_map(|peer| self.to_recv(peer, Lane::Control)));
                let unsent = unsent.iter();
                wanted.extend(unsent.filter_map(|&peer| self.to_send(peer, Lane::Control)));
            }
        }
        wanted.retain(|wanted| self.living(*wanted).is_some());
    }

    fn to_send(&self, peer: Rank, lane: Lane) -> Option<PolledConnection> {
        Some(PolledConnection {
            peer,
            lane,
            strand: self.look(peer, lane)?.outgoing(),
            flags: PollFlags::OUT,
        })
    }

    fn to_recv(&self, peer: Rank, lane: Lane) -> Option<PolledConnection> {
        Some(PolledConnection {
            peer,
            lane,
            strand: self.look(peer, lane)?.incoming(),
            // The other end's closing is asked for, to be told apart from bytes.
            flags: PollFlags::IN.union(PollFlags::RDHUP),
        })
    }

    fn living(&self, wanted: PolledConnection) -> Option<&TcpStream> {
        let lane = self.look(wanted.peer, wanted.lane)?;
        let connection = &lane.strands()[wanted.strand];
        connection.ended.is_none().then_some(&connection.stream)
    }

    /// Whether one of these connections has bytes to receive that the kernel has given out already.
    fn has_input(&self, wanted: &[PolledConnection]) -> bool {
        wanted.iter().any(|wanted| {
            let lane = self.look(wanted.peer, wanted.lane);
            wanted.flags.contains(PollFlags::IN) && lane.is_some_and(Bundle::has_input)
        })
    }

    /// Waits for `wanted` and keeps of it those connections whose other end was closed; false if
    /// the deadline passed.
    fn sleep(
        &self,
        wanted: &mut Vec<PolledConnection>,
        spin: Option<&mut Spin>,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        let mut polled = Vec::with_capacity(1 + wanted.len());
        polled.push(PollFd::new(&*self.flag, PollFlags::IN));
        for &wanted in &*wanted {
            if let Some(stream) = self.living(wanted) {
                polled.push(PollFd::new(stream, wanted.flags));
            }
        }
        let is_ready = spin.map_or(Ok(false), |spin| spin_on(&mut polled, spin))?;
        let in_time = is_ready || poll(&mut polled, deadline)?;
        if polled[0].revents().contains(PollFlags::IN) {
            self.flag.lower();
        }
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut answers = polled[1..].iter().map(PollFd::revents);
        wanted.retain(|_| {
            answers
                .next()
                .is_some_and(|answer| answer.intersects(closed))
        });
        Ok(in_time)
    }

    /// A peer that a wait needs and whose connection has ended, and since when.
    fn lost(&self, interest: Interest<'_>) -> Option<(Rank, Instant)> {
        match interest {
            Interest::Data { send, recv } => {
                let mut peers = recv.into_iter().chain(send);
                peers.find_map(|peer| self.ended(peer, Lane::Data))
            }
            // While the last messages are still on their way to some, others may have left.
            Interest::Control { unsent } if !unsent.is_empty() => {
                let mut failed = unsent.iter().filter(|&&peer| {
                    matches!(
                        self.links.get(peer, Lane::Control),
                        LaneState::Failed { .. }
                    )
                });
                failed.find_map(|&peer| self.ended(peer, Lane::Control))
            }
            Interest::Control { .. } if self.context.rank == Rank::COORDINATOR => {
                (0..self.links.lanes.len())
                    .find_map(|index| self.ended(Rank::from_index(index), Lane::Control))
            }
            Interest::Control { .. } => self.ended(Rank::COORDINATOR, Lane::Control),
        }
    }

    fn ended(&self, peer: Rank, lane: Lane) -> Option<(Rank, Instant)> {
        if let Some(since) = self.links.get(peer, lane).ended() {
            return Some((peer, since));
        }
        let is_unused = lane == Lane::Data && self.links.is_unused(peer, lane);
        let departed = || self.context.abort.departed(peer);
        is_unused.then(departed)?.map(|since| (peer, since))
    }

    /// `TCP-2`: no failed rank was named in time, so it is this peer.
    fn give_up(&self, peer: Rank, lane: Lane) -> Result<Wake> {
        let own = self.context.rank;
        let host = self.context.topology.host_name(own);
        let reason = match self.links.get(peer, lane) {
            LaneState::Failed { reason, .. } => {
                format!("could not be reached by rank {own} on host `{host}`: {reason}")
            }
            LaneState::Open(bundle) if bundle.is_tampered() => {
                let kind = lane.name();
                format!(
                    "has a {kind} connection to rank {own} on host `{host}` on which {TAMPERED}"
                )
            }
            _ => "closed its connection while it was needed".to_owned(),
        };
        self.context.abort.raise(Failure {
            rank: peer,
            host: self.context.topology.host_name(peer).to_owned(),
            reason,
        });
        self.context.abort.check().map(|()| Wake::Event)
    }
}

impl Transport for Tcp {
    fn rank(&self) -> Rank {
        self.context.rank
    }

    fn size(&self) -> usize {
        self.context.topology.size()
    }

    fn kind(&self) -> &'static str {
        "tcp"
    }

    fn host_of(&self, rank: Rank) -> &str {
        self.context.topology.host_name(rank)
    }

    fn progress_timeout(&self) -> Duration {
        self.context.progress_timeout
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let sent = match self.links.open(peer, lane) {
            Some(bundle) => bundle.send(bytes),
            None => 0,
        };
        if sent == 0 {
            self.check(peer, lane)?;
            self.links.connect(peer, lane);
        }
        Ok(sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let received = match self.links.open(peer, lane) {
            Some(bundle) => bundle.recv(buffer),
            None => 0,
        };
        if received == 0 {
            self.check(peer, lane)?;
        }
        Ok(received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.context.abort.check()?;
        self.connect_lanes(interest);
        self.links.take_events();
        let lost = self.lost(interest);
        let end = match (deadline, lost) {
            (Some(end), Some((_, since))) => Some(end.min(since + GRACE)),
            (end, lost) => end.or(lost.map(|(_, since)| since + GRACE)),
        };
        let mut wanted = std::mem::take(&mut self.wanted);
        self.choose(interest, &mut wanted);
        let is_eager = self.eager && matches!(interest, Interest::Control { .. });
        let in_time = if self.has_input(&wanted) {
            wanted.clear();
            true
        } else {
            let mut spin = is_eager.then(|| self.spin.start(end));
            let slept = self.sleep(&mut wanted, spin.as_mut(), end);
            if let Some(spin) = &spin {
                self.spin.learn(spin);
            }
            slept.map_err(Error::io("waiting for connections"))?
        };
        for &PolledConnection {
            peer, lane, strand, ..
        } in &wanted
        {
            if let Some(bundle) = self.links.open(peer, lane) {
                bundle.strand(strand).look_for_end();
            }
        }
        self.wanted = wanted;
        self.context.abort.check()?;
        match lost {
            Some((peer, since)) if since.elapsed() >= GRACE => {
                let is_data = matches!(interest, Interest::Data { .. });
                self.give_up(peer, if is_data { Lane::Data } else { Lane::Control })
            }
            _ if in_time => Ok(Wake::Event),
            _ => Ok(Wake::TimedOut),
        }
    }

    fn connections(&self) -> ConnectionCount {
        self.links.count.clone()
    }

    fn set_eager(&mut self, eager: bool) {
        self.eager = eager;
    }

    fn waker(&self) -> Waker {
        let flag = Arc::downgrade(&self.flag);
        Waker::new(move || {
            if let Some(flag) = flag.upgrade() {
                flag.raise();
            }
        })
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        if self.context.abort.cause().is_none() && self.process == std::process::id() {
            close::in_peace(
                self.links
                    .bundles()
                    .flat_map(Bundle::strands)
                    .filter(|open| open.ended.is_none())
                    .map(|open| &open.stream),
            );
        }
    }
}

/// Polls without sleeping for as long as `spin` allows; true if one of `fds` is ready.
fn spin_on(fds: &mut [PollFd<'_>], spin: &mut Spin) -> io::Result<bool> {
    if !spin.is_active() {
        return Ok(false);
    }
    loop {
        if poll(fds, Some(spin.clock()))? {
            spin.is_preempted();
            return Ok(true);
        }
        if !spin.again() {
            return Ok(false);
        }
    }
}

fn no_peer(own: Rank, peer: Rank) -> Error {
    Error::Bootstrap(format!("rank {own} has no connection to rank {peer}"))
}
