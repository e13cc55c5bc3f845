//! Waiting until a peer's count of a shared slot is high enough.
//!
//! A wait spins ([`crate::spin::SLOTS`]), then sleeps on this rank's doorbell like every other wait,
//! and ends by the peer's progress, the progress timeout or the job's abort.

use std::io;
use std::time::Instant;

use hvd_types::Rank;
use rustix::event::{PollFd, PollFlags};

use super::ring::Corrupt;
use super::rings::Rings;
use super::slots::{SlotEvent, SlotPeer, Slots};
use crate::os::event::{Flag, poll};
use crate::rank_context::RankContext;
use crate::{Error, Result};

/// What a wait is for: that a peer has counted up to a target.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedCount {
    pub(super) peer: SlotPeer,
    pub(super) event: SlotEvent,
    pub(super) target: u64,
    /// How far this rank itself is, see [`Slots::reached`].
    pub(super) own: u64,
}

impl AwaitedCount {
    pub(super) fn wait(&self, context: &RankContext, rings: &mut Rings) -> Result<()> {
        if self.check(context, rings)? || self.spin(context, rings)? {
            return Ok(());
        }
        self.sleep(context, rings)
    }

    fn is_reached(&self, slots: &mut Slots) -> std::result::Result<bool, Corrupt> {
        slots.reached(self.peer.segment_index, self.event, self.target, self.own)
    }

    fn check(&self, context: &RankContext, rings: &mut Rings) -> Result<bool> {
        let is_reached = self.is_reached(&mut rings.part.slots);
        is_reached.map_err(|Corrupt| corrupted(context, self.peer.rank))
    }

    /// Spins before the wait sleeps.
    fn spin(&self, context: &RankContext, rings: &mut Rings) -> Result<bool> {
        let mut spin = rings.slot_spin.start(None);
        while spin.again() {
            if self.check(context, rings)? {
                return Ok(true);
            }
            context.abort.check()?;
        }
        Ok(false)
    }

    fn sleep(&self, context: &RankContext, rings: &mut Rings) -> Result<()> {
        let deadline = Some(Instant::now() + context.progress_timeout);
        loop {
            context.abort.check()?;
            if self.check(context, rings)? {
                return Ok(());
            }
            let in_time = self.sleep_once(rings, deadline);
            rings.awake();
            if !in_time.map_err(Error::io("sleeping on shared memory"))? {
                return Err(Error::Stalled {
                    rank: self.peer.rank,
                    host: context.topology.host_name(self.peer.rank).to_owned(),
                    seconds: context.progress_timeout.as_secs(),
                });
            }
        }
    }

    /// Sleeps until the bell is rung; false if the deadline passed.
    fn sleep_once(&self, rings: &mut Rings, deadline: Option<Instant>) -> io::Result<bool> {
        let (bell, seen) = (rings.bell().clone(), rings.seen());
        // What makes no sense is a reason to wake up too: the next check reports it.
        let slots = &mut rings.part.slots;
        let has_work = || self.is_reached(slots) != Ok(false);
        let Some(flag) = &bell.flag else {
            return bell.sleep(seen, deadline, has_work);
        };
        let slept = bell.sleep_by(seen, has_work, || wait_for(flag, deadline));
        slept.unwrap_or(Ok(true))
    }
}

fn wait_for(flag: &Flag, deadline: Option<Instant>) -> io::Result<bool> {
    let in_time = poll(&mut [PollFd::new(flag, PollFlags::IN)], deadline)?;
    flag.lower();
    Ok(in_time)
}

pub(super) fn corrupted(context: &RankContext, rank: Rank) -> Error {
    let host = context.topology.host_name(rank).to_owned();
    Error::Corrupted { rank, host }
}
