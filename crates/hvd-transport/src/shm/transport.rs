//! [`Transport`] for a job on one host: all ranks share one segment, and a rank's index in it is
//! its number.

use std::time::{Duration, Instant};

use hvd_types::Rank;

use super::rings::Rings;
use super::segment::Segment;
use crate::rank_context::RankContext;
use crate::{Error, Interest, Lane, Result, SharedSlots, Transport, Wake, Waker};

/// One rank's end of the shared memory of its job.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    context: RankContext,
    rings: Rings,
    eager: bool,
}

impl SharedMemory {
    /// Takes this rank's part of `segment`.
    pub(crate) fn new(segment: &Segment, context: RankContext) -> Result<Self> {
        let rings = Rings::new(segment, context.rank.index(), &[])?;
        let this = Self {
            context,
            rings,
            eager: false,
        };
        this.context.abort.on_raise(this.waker());
        Ok(this)
    }

    fn has_work(&self, interest: Interest<'_>) -> bool {
        let rings = &self.rings;
        match interest {
            Interest::Data { send, recv } => {
                recv.is_some_and(|peer| rings.can_recv(peer.index(), Lane::Data))
                    || send.is_some_and(|peer| rings.can_send(peer.index(), Lane::Data))
            }
            Interest::Control { unsent } => {
                let can_send = |peer: &Rank| rings.can_send(peer.index(), Lane::Control);
                rings.has_control() || unsent.iter().any(can_send)
            }
        }
    }
}

impl Transport for SharedMemory {
    fn rank(&self) -> Rank {
        self.context.rank
    }

    fn size(&self) -> usize {
        self.context.topology.size()
    }

    fn kind(&self) -> &'static str {
        "shared memory"
    }

    fn host_of(&self, rank: Rank) -> &str {
        self.context.topology.host_name(rank)
    }

    fn progress_timeout(&self) -> Duration {
        self.context.progress_timeout
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let sent = self.rings.send(peer.index(), lane, bytes);
        self.context.checked(peer, sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let received = self.rings.recv(peer.index(), lane, buffer);
        self.context.checked(peer, received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.context.abort.check()?;
        let has_work = || self.has_work(interest);
        let (bell, seen) = (self.rings.bell(), self.rings.seen());
        let soon = self.eager || matches!(interest, Interest::Data { .. });
        let in_time = soon && self.rings.spin(deadline, has_work)
            || bell
                .sleep(seen, deadline, has_work)
                .map_err(Error::io("sleeping on shared memory"))?;
        self.rings.awake();
        self.context.abort.check()?;
        Ok(if in_time { Wake::Event } else { Wake::TimedOut })
    }

    fn set_eager(&mut self, eager: bool) {
        self.eager = eager;
    }

    fn waker(&self) -> Waker {
        self.rings.waker()
    }

    fn shared_slots(&mut self, members: &[Rank]) -> Option<SharedSlots<'_>> {
        let segment_index = |rank: Rank| Some(rank.index());
        SharedSlots::new(&self.context, &mut self.rings, members, segment_index)
    }
}
