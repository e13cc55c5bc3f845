//! Tensors between hosts by way of another library, a [`DataFabric`]: MPI, for networks that only
//! it reaches.
//!
//! [`OverFabric`] wraps the transport that a job would have without it. The data lane between ranks
//! without common memory goes through the fabric; control messages, lifelines and the memory
//! inside a host stay as they are, so a rank that is idle sleeps on its connections. A fabric has
//! nothing to sleep on, so a wait for it polls: first without a pause, then yielding its core, then
//! at the intervals of [`Pacing`].
//!
//! - `FAB-1` a peer's data goes through the fabric or through the wrapped transport, on both ends
//!   alike; nothing is ever sent both ways.
//! - `FAB-2` a fabric moves bytes only while it is called. So an operation ends with
//!   [`Transport::flush`]: afterwards the fabric holds nothing that a peer still waits for. Until
//!   then every wait calls it.
//! - `FAB-3` an error of the fabric is not a failure by itself: the lifeline gets [`GRACE`] to name
//!   the rank that failed first, then the job fails with the fabric's error.
//! - `FAB-4` after a failure the fabric is abandoned: nothing calls it any more, because it may wait
//!   for a rank that is gone.

mod messages;
mod pacing;

use std::fmt;
use std::time::{Duration, Instant};

use hvd_types::Rank;

use crate::rank_context::RankContext;
use crate::{
    ConnectionCount, Failure, Interest, Lane, Result, SharedSlots, Transport, Wake, Waker,
};
pub use messages::{AfterLook, Exchanged, MessageExchange, MessagePair, PART_ALIGNMENT, TakePart};
use pacing::Pacing;

/// How long a wait for a fabric that reported an error waits for the reason.
const GRACE: Duration = Duration::from_secs(1);

/// An error of the fabric, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FabricError(pub String);

/// A library that moves tensors between ranks. Bytes to one peer arrive once, whole and in order.
pub trait DataFabric: Send + fmt::Debug {
    /// Takes a beginning of `bytes` for `peer` and returns its length; 0 if it can take nothing now.
    /// Never blocks.
    fn try_send(&mut self, peer: Rank, bytes: &[u8]) -> std::result::Result<usize, FabricError>;

    /// Fills a beginning of `buffer` and returns its length; 0 if nothing is there. Never blocks.
    fn try_recv(
        &mut self,
        peer: Rank,
        buffer: &mut [u8],
    ) -> std::result::Result<usize, FabricError>;

    /// Does what there is to do for all peers, and returns whether bytes can be sent to one peer
    /// or have arrived from another. Never blocks.
    fn poll(
        &mut self,
        send: Option<Rank>,
        recv: Option<Rank>,
    ) -> std::result::Result<bool, FabricError>;

    /// Sends one message while another arrives, both from and to their places at once. Passes what
    /// arrives to `take_part`, and asks `after_look` whether to go on; when told not to, it leaves the
    /// messages as they are, and [`Self::abandon`] follows.
    fn exchange(
        &mut self,
        messages: MessagePair<'_>,
        take_part: TakePart<'_>,
        after_look: AfterLook<'_>,
    ) -> Exchanged;

    /// A peer that has not received all that was taken for it, if there is one.
    fn unsent(&self) -> Option<Rank>;

    /// The job has failed: the fabric must not be waited for any more, by whatever is to come.
    fn abandon(&mut self);
}

/// Where fabrics come from, one for each time that the ranks of a job meet.
pub trait FabricSource: Send + Sync + fmt::Debug {
    /// The fabric of one meeting. `meeting` is the same on all ranks and is never used twice.
    fn open(&self, meeting: u64) -> std::result::Result<Box<dyn DataFabric>, FabricError>;
}

/// A transport whose data lanes to some ranks are those of a fabric.
#[derive(Debug)]
pub(crate) struct OverFabric<T> {
    context: RankContext,
    inner: T,
    fabric: Box<dyn DataFabric>,
    /// By rank, whether its data goes through the fabric.
    far: Vec<bool>,
    /// Since when the fabric has been broken, and why.
    broken: Option<(Instant, FabricError)>,
    /// The process whose fabric this is; a forked child must not touch it.
    process: u32,
}

impl<T: Transport> OverFabric<T> {
    /// Has the data of the ranks in `far` go through `fabric`, and everything else through `inner`.
    pub(crate) fn new(
        context: RankContext,
        inner: T,
        fabric: Box<dyn DataFabric>,
        far: &[Rank],
    ) -> Self {
        let mut by_rank = vec![false; context.topology.size()];
        for peer in far {
            by_rank[peer.index()] = true;
        }
        Self {
            context,
            inner,
            fabric,
            far: by_rank,
            broken: None,
            process: std::process::id(),
        }
    }

    fn is_far(&self, peer: Rank) -> bool {
        self.far.get(peer.index()).is_some_and(|far| *far)
    }

    /// What the fabric moved; nothing if it is broken (`FAB-3`) or the job has failed (`WIRE-4`).
    fn moved(&mut self, moved: std::result::Result<usize, FabricError>) -> Result<usize> {
        match moved {
            Ok(0) => self.context.abort.check().map(|()| 0),
            Ok(moved) => Ok(moved),
            Err(error) => {
                self.broken.get_or_insert((Instant::now(), error));
                self.context.abort.check().map(|()| 0)
            }
        }
    }

    /// Has the fabric do what there is to do, and returns whether something of the wait may move.
    fn poll(&mut self, send: Option<Rank>, recv: Option<Rank>) -> bool {
        if self.broken.is_some() {
            return false;
        }
        match self.fabric.poll(send, recv) {
            Ok(is_ready) => is_ready,
            Err(error) => {
                self.broken = Some((Instant::now(), error));
                false
            }
        }
    }

    /// `FAB-3`, and the same for a peer that has left in peace: fails when the lifeline has had its
    /// time to name a rank, and none was named.
    fn check_lost(&mut self, send: Option<Rank>, recv: Option<Rank>) -> Result<()> {
        let own = self.context.rank;
        let failure = if let Some((since, error)) = &self.broken {
            if since.elapsed() < GRACE {
                return Ok(());
            }
            let (rank, host) = (recv.or(send).unwrap_or(own), &self.context.topology);
            let reason = format!(
                "cannot be reached by rank {own} on host `{}` through MPI: {error}",
                host.host_name(own)
            );
            failure_of(&self.context, rank, reason)
        } else {
            match lost_peer(&self.context, recv.into_iter().chain(send)) {
                Some(failure) => failure,
                None => return Ok(()),
            }
        };
        self.context.abort.raise(failure);
        self.context.abort.check()
    }

    /// Waits for data of which at least one side is the fabric's.
    fn wait_for_fabric(
        &mut self,
        send: Option<Rank>,
        recv: Option<Rank>,
        deadline: Option<Instant>,
    ) -> Result<Wake> {
        let far_of = |peer: &Rank| self.far.get(peer.index()).is_some_and(|far| *far);
        let (send_far, recv_far) = (send.filter(far_of), recv.filter(far_of));
        let near = Interest::Data {
            send: send.filter(|peer| !far_of(peer)),
            recv: recv.filter(|peer| !far_of(peer)),
        };
        let has_near = !matches!(
            near,
            Interest::Data {
                send: None,
                recv: None
            }
        );
        let mut pacing = Pacing::start(self.context.has_cores);
        loop {
            self.context.abort.check()?;
            if self.poll(send_far, recv_far) {
                return Ok(Wake::Event);
            }
            let now = Instant::now();
            if deadline.is_some_and(|end| now >= end) {
                return Ok(Wake::TimedOut);
            }
            let sleep = pacing.next(now);
            if has_near || sleep.is_some() {
                // The wrapped transport's flag ends this when the job fails or a waker fires.
                let end = now + sleep.unwrap_or_default();
                let end = deadline.map_or(end, |deadline| deadline.min(end));
                if self.inner.wait(near, Some(end))? == Wake::Event {
                    return Ok(Wake::Event);
                }
                self.check_lost(send_far, recv_far)?;
            }
        }
    }

    /// Waits for what is not the fabric's, while the fabric sends what it holds, if anything.
    fn wait_beside_fabric(
        &mut self,
        interest: Interest<'_>,
        deadline: Option<Instant>,
    ) -> Result<Wake> {
        let mut pacing = Pacing::start(self.context.has_cores);
        while self.broken.is_none() && self.fabric.unsent().is_some() {
            self.poll(None, None);
            let now = Instant::now();
            let end = now + pacing.next(now).unwrap_or_default();
            let end = deadline.map_or(end, |deadline| deadline.min(end));
            if self.inner.wait(interest, Some(end))? == Wake::Event {
                return Ok(Wake::Event);
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Wake::TimedOut);
            }
        }
        self.inner.wait(interest, deadline)
    }
}

impl<T: Transport> Transport for OverFabric<T> {
    fn rank(&self) -> Rank {
        self.context.rank
    }

    fn size(&self) -> usize {
        self.context.topology.size()
    }

    fn kind(&self) -> &'static str {
        match self.inner.kind() {
            "tcp" => "mpi",
            _ => "shared memory and mpi",
        }
    }

    fn host_of(&self, rank: Rank) -> &str {
        self.context.topology.host_name(rank)
    }

    fn progress_timeout(&self) -> Duration {
        self.context.progress_timeout
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        if lane == Lane::Control || !self.is_far(peer) {
            return self.inner.try_send(peer, lane, bytes);
        }
        self.context.abort.check()?;
        let sent = match self.broken {
            None => self.fabric.try_send(peer, bytes),
            Some(_) => Ok(0),
        };
        self.moved(sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        if lane == Lane::Control || !self.is_far(peer) {
            return self.inner.try_recv(peer, lane, buffer);
        }
        self.context.abort.check()?;
        let received = match self.broken {
            None => self.fabric.try_recv(peer, buffer),
            Some(_) => Ok(0),
        };
        self.moved(received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        match interest {
            Interest::Data { send, recv }
                if send.into_iter().chain(recv).any(|peer| self.is_far(peer)) =>
            {
                self.wait_for_fabric(send, recv, deadline)
            }
            _ => self.wait_beside_fabric(interest, deadline),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let mut pacing = Pacing::start(self.context.has_cores);
        let end = Instant::now() + self.context.progress_timeout;
        while let Some(peer) = self.fabric.unsent() {
            self.context.abort.check()?;
            self.poll(None, None);
            let now = Instant::now();
            if now >= end {
                return Err(self.stalled(peer));
            }
            if let Some(sleep) = pacing.next(now) {
                let nothing = Interest::Data {
                    send: None,
                    recv: None,
                };
                self.inner.wait(nothing, Some(now + sleep))?;
                self.check_lost(Some(peer), None)?;
            }
        }
        Ok(())
    }

    fn set_eager(&mut self, eager: bool) {
        self.inner.set_eager(eager);
    }

    fn connections(&self) -> ConnectionCount {
        self.inner.connections()
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn shared_slots(&mut self, members: &[Rank]) -> Option<SharedSlots<'_>> {
        self.inner.shared_slots(members)
    }

    fn messages(&mut self, members: &[Rank]) -> Option<&mut dyn MessageExchange> {
        if messages::are_apart(&self.context, members) {
            Some(self)
        } else {
            None
        }
    }
}

impl<T> Drop for OverFabric<T> {
    fn drop(&mut self) {
        let has_failed = self.context.abort.cause().is_some() || self.broken.is_some();
        if has_failed || self.process != std::process::id() {
            self.fabric.abandon();
        }
    }
}

/// The failure of a peer that said goodbye although it is needed, once the lifeline has had its time
/// to name another.
fn lost_peer(context: &RankContext, peers: impl IntoIterator<Item = Rank>) -> Option<Failure> {
    let departed = |peer: &Rank| {
        let since = context.abort.departed(*peer);
        since.is_some_and(|since| since.elapsed() >= GRACE)
    };
    let rank = peers.into_iter().find(departed)?;
    let reason = "has left the job while it was needed".to_owned();
    Some(failure_of(context, rank, reason))
}

fn failure_of(context: &RankContext, rank: Rank, reason: String) -> Failure {
    let host = context.topology.host_name(rank).to_owned();
    Failure { rank, host, reason }
}
