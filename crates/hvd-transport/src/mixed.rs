//! Ranks on several hosts, some of them with several ranks: shared memory to the ranks of this
//! host, connections to all others.
//!
//! Both are waited for at once: the doorbells of such a host are flags that `poll` knows, and this
//! rank's own one is the flag that its connections are polled together with. A rank of this host
//! that finds the sleeping mark raises it.
//!
//! - `MIX-1` the mark is set before the last look at the rings and stays until `poll` has
//!   returned, so what `BELL-1` says of sleeping on memory holds for `poll` too.
//! - `MIX-2` a peer is either near or far, on both ends alike; nothing is ever sent both ways.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::Rank;

use crate::os::event::Flag;
use crate::rank_context::RankContext;
use crate::shm::{Rings, Segment};
use crate::tcp::{Links, Tcp};
use crate::{ConnectionCount, Interest, Lane, Result, SharedSlots, Transport, Wake, Waker};

/// One rank's end of the memory of its host, and its connections to other hosts.
#[derive(Debug)]
pub(crate) struct Mixed {
    context: RankContext,
    near: Near,
    far: Tcp,
}

/// The ranks of this host.
#[derive(Debug)]
struct Near {
    rings: Rings,
    /// By rank, its index in the segment; none for ranks of other hosts.
    segment_indexes: Vec<Option<usize>>,
}

/// The memory that the ranks of a host share.
#[derive(Debug)]
pub(crate) struct HostMemory {
    pub(crate) segment: Segment,
    /// The ranks of the host, ascending, which is their order in the segment.
    pub(crate) ranks: Vec<Rank>,
    /// What each of them sleeps on, in the same order. Empty if there are no other hosts: then they
    /// sleep on the memory itself.
    pub(crate) flags: Vec<Arc<Flag>>,
}

impl Mixed {
    /// Takes this rank's part of its host's memory. `links` are the lanes to ranks of other hosts.
    pub(crate) fn new(context: RankContext, memory: &HostMemory, links: Links) -> Result<Self> {
        let segment_index = |rank: Rank| memory.ranks.iter().position(|&near| near == rank);
        let segment_indexes: Vec<Option<usize>> = (0..context.topology.size())
            .map(|index| segment_index(Rank::from_index(index)))
            .collect();
        let own = segment_indexes[context.rank.index()].unwrap_or_default();
        let rings = Rings::new(&memory.segment, own, &memory.flags)?;
        let far = Tcp::new(context.clone(), links, Arc::clone(&memory.flags[own]));
        // The connections have registered the flag with the abort.
        Ok(Self {
            context,
            near: Near {
                rings,
                segment_indexes,
            },
            far,
        })
    }
}

impl Near {
    fn segment_index(&self, peer: Rank) -> Option<usize> {
        self.segment_indexes[peer.index()]
    }

    fn has_work(&self, interest: Interest<'_>) -> bool {
        let can_send = |peer: Rank, lane| {
            let segment_index = self.segment_index(peer);
            segment_index.is_some_and(|segment_index| self.rings.can_send(segment_index, lane))
        };
        let can_recv = |peer: Rank| {
            let segment_index = self.segment_index(peer);
            segment_index
                .is_some_and(|segment_index| self.rings.can_recv(segment_index, Lane::Data))
        };
        match interest {
            Interest::Data { send, recv } => {
                recv.is_some_and(can_recv) || send.is_some_and(|peer| can_send(peer, Lane::Data))
            }
            Interest::Control { unsent } => {
                let mut unsent = unsent.iter();
                self.rings.has_control() || unsent.any(|&peer| can_send(peer, Lane::Control))
            }
        }
    }

    /// Whether ranks of this host are all that is waited for.
    fn is_all_of(&self, interest: Interest<'_>) -> bool {
        let is_near =
            |peer: Option<Rank>| peer.is_none_or(|peer| self.segment_index(peer).is_some());
        match interest {
            Interest::Data { send, recv } => is_near(send) && is_near(recv),
            Interest::Control { .. } => false,
        }
    }
}

impl Transport for Mixed {
    fn rank(&self) -> Rank {
        self.context.rank
    }

    fn size(&self) -> usize {
        self.context.topology.size()
    }

    fn kind(&self) -> &'static str {
        "shared memory and tcp"
    }

    fn host_of(&self, rank: Rank) -> &str {
        self.context.topology.host_name(rank)
    }

    fn progress_timeout(&self) -> Duration {
        self.context.progress_timeout
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let Some(segment_index) = self.near.segment_index(peer) else {
            return self.far.try_send(peer, lane, bytes);
        };
        let sent = self.near.rings.send(segment_index, lane, bytes);
        self.context.checked(peer, sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let Some(segment_index) = self.near.segment_index(peer) else {
            return self.far.try_recv(peer, lane, buffer);
        };
        let received = self.near.rings.recv(segment_index, lane, buffer);
        self.context.checked(peer, received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.context.abort.check()?;
        let Self { near, far, .. } = self;
        let has_work = || near.has_work(interest);
        // Connections are not looked at while spinning, so it would hold them up.
        let found = near.is_all_of(interest) && near.rings.spin(deadline, has_work);
        let slept = if found {
            None
        } else {
            let (bell, seen) = (near.rings.bell(), near.rings.seen());
            bell.sleep_by(seen, has_work, || far.wait(interest, deadline))
        };
        near.rings.awake();
        self.context.abort.check()?;
        slept.unwrap_or(Ok(Wake::Event))
    }

    fn connections(&self) -> ConnectionCount {
        self.far.connections()
    }

    fn set_eager(&mut self, eager: bool) {
        self.far.set_eager(eager);
    }

    fn waker(&self) -> Waker {
        self.near.rings.waker()
    }

    fn shared_slots(&mut self, members: &[Rank]) -> Option<SharedSlots<'_>> {
        let Near {
            rings,
            segment_indexes,
        } = &mut self.near;
        let segment_index = |rank: Rank| segment_indexes.get(rank.index()).copied().flatten();
        SharedSlots::new(&self.context, rings, members, segment_index)
    }
}
