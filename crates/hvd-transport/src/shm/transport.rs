//! [`Transport`] for a job on one host: all ranks share one segment, and a rank's place in it is
//! its number.

use std::time::{Duration, Instant};

use hvd_types::Rank;

use super::rings::Rings;
use super::segment::Segment;
use crate::member::Member;
use crate::{Commons, Error, Interest, Lane, Result, Transport, Wake, Waker};

/// One rank's end of the shared memory of its job.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    member: Member,
    rings: Rings,
    eager: bool,
}

impl SharedMemory {
    /// Takes this rank's part of `segment`.
    pub(crate) fn new(segment: &Segment, member: Member) -> Result<Self> {
        let rings = Rings::new(segment, member.rank.index(), &[])?;
        let this = Self {
            member,
            rings,
            eager: false,
        };
        this.member.abort.on_raise(this.waker());
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
        self.member.rank
    }

    fn size(&self) -> usize {
        self.member.topology.size()
    }

    fn kind(&self) -> &'static str {
        "shared memory"
    }

    fn host_of(&self, rank: Rank) -> &str {
        self.member.topology.host_name(rank)
    }

    fn patience(&self) -> Duration {
        self.member.patience
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let sent = self.rings.send(peer.index(), lane, bytes);
        self.member.checked(peer, sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let received = self.rings.recv(peer.index(), lane, buffer);
        self.member.checked(peer, received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.member.abort.check()?;
        let has_work = || self.has_work(interest);
        let (bell, seen) = (self.rings.bell(), self.rings.seen());
        let soon = self.eager || matches!(interest, Interest::Data { .. });
        let in_time = soon && self.rings.spin(deadline, has_work)
            || bell
                .sleep(seen, deadline, has_work)
                .map_err(Error::io("sleeping on shared memory"))?;
        self.rings.awake();
        self.member.abort.check()?;
        Ok(if in_time { Wake::Event } else { Wake::TimedOut })
    }

    fn set_eager(&mut self, eager: bool) {
        self.eager = eager;
    }

    fn waker(&self) -> Waker {
        self.rings.waker()
    }

    fn commons(&mut self, members: &[Rank]) -> Option<Commons<'_>> {
        let place = |rank: Rank| Some(rank.index());
        Commons::new(&self.member, &mut self.rings, members, place)
    }
}
