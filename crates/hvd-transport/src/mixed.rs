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

use crate::member::Member;
use crate::os::event::Flag;
use crate::shm::{Rings, Segment};
use crate::tcp::{Links, Tcp};
use crate::{Commons, ConnectionCount, Interest, Lane, Result, Transport, Wake, Waker};

/// One rank's end of the memory of its host, and its connections to other hosts.
#[derive(Debug)]
pub(crate) struct Mixed {
    member: Member,
    near: Near,
    far: Tcp,
}

/// The ranks of this host.
#[derive(Debug)]
struct Near {
    rings: Rings,
    /// By rank, its place in the memory; none for ranks of other hosts.
    places: Vec<Option<usize>>,
}

/// What the ranks of a host have in common.
#[derive(Debug)]
pub(crate) struct HostMemory {
    pub(crate) segment: Segment,
    /// The ranks of the host, ascending; a position is a place in the segment.
    pub(crate) ranks: Vec<Rank>,
    /// What each of them sleeps on, by place. None if there are no other hosts: then they sleep on
    /// the memory itself.
    pub(crate) flags: Vec<Arc<Flag>>,
}

impl Mixed {
    /// Takes this rank's part of its host's memory. `links` are the lanes to ranks of other hosts.
    pub(crate) fn new(member: Member, memory: &HostMemory, links: Links) -> Result<Self> {
        let place = |rank: Rank| memory.ranks.iter().position(|&near| near == rank);
        let places: Vec<Option<usize>> = (0..member.topology.size())
            .map(|index| place(Rank::from_index(index)))
            .collect();
        let own = places[member.rank.index()].unwrap_or_default();
        let rings = Rings::new(&memory.segment, own, &memory.flags)?;
        let far = Tcp::new(member.clone(), links, Arc::clone(&memory.flags[own]));
        // The connections have registered the flag with the abort.
        Ok(Self {
            member,
            near: Near { rings, places },
            far,
        })
    }
}

impl Near {
    fn place(&self, peer: Rank) -> Option<usize> {
        self.places[peer.index()]
    }

    fn has_work(&self, interest: Interest<'_>) -> bool {
        let can_send = |peer: Rank, lane| {
            let place = self.place(peer);
            place.is_some_and(|place| self.rings.can_send(place, lane))
        };
        let can_recv = |peer: Rank| {
            let place = self.place(peer);
            place.is_some_and(|place| self.rings.can_recv(place, Lane::Data))
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
        let is_near = |peer: Option<Rank>| peer.is_none_or(|peer| self.place(peer).is_some());
        match interest {
            Interest::Data { send, recv } => is_near(send) && is_near(recv),
            Interest::Control { .. } => false,
        }
    }
}

impl Transport for Mixed {
    fn rank(&self) -> Rank {
        self.member.rank
    }

    fn size(&self) -> usize {
        self.member.topology.size()
    }

    fn kind(&self) -> &'static str {
        "shared memory and tcp"
    }

    fn host_of(&self, rank: Rank) -> &str {
        self.member.topology.host_name(rank)
    }

    fn patience(&self) -> Duration {
        self.member.patience
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let Some(place) = self.near.place(peer) else {
            return self.far.try_send(peer, lane, bytes);
        };
        let sent = self.near.rings.send(place, lane, bytes);
        self.member.checked(peer, sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let Some(place) = self.near.place(peer) else {
            return self.far.try_recv(peer, lane, buffer);
        };
        let received = self.near.rings.recv(place, lane, buffer);
        self.member.checked(peer, received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.member.abort.check()?;
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
        self.member.abort.check()?;
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

    fn commons(&mut self, members: &[Rank]) -> Option<Commons<'_>> {
        let Near { rings, places } = &mut self.near;
        let place = |rank: Rank| places.get(rank.index()).copied().flatten();
        Commons::new(&self.member, rings, members, place)
    }
}
