//! One rank's ends of the rings of a [`Segment`], all doorbells, and how it sleeps.
//!
//! Peers are numbered by their index in the segment; the callers know which ranks of the job they
//! are.

use std::sync::Arc;
use std::time::Instant;

use hvd_types::Rank;

use super::doorbell::Doorbell;
use super::ring::Corrupt;
use super::segment::{Segment, SegmentPart};
use crate::os::event::Flag;
use crate::spin::{self, SpinPolicy};
use crate::{Lane, Result, Waker};

/// One rank's end of the shared memory of its host.
#[derive(Debug)]
pub(crate) struct Rings {
    /// This rank's index.
    own: usize,
    pub(super) part: SegmentPart,
    /// By index. Held in an `Arc` so that wakers do not keep the memory alive.
    pub(super) doorbells: Arc<[Doorbell]>,
    /// What this rank's doorbell had counted when the last wait ended.
    seen: u32,
    /// How waits for bytes spin, and waits for slots.
    ring_spin: SpinPolicy,
    pub(super) slot_spin: SpinPolicy,
}

impl Rings {
    /// Takes index `own` of `segment`. With `flags`, one per index, ranks sleep on those, else on
    /// the memory itself.
    pub(crate) fn new(segment: &Segment, own: usize, flags: &[Arc<Flag>]) -> Result<Self> {
        let part = segment.claim(Rank::from_index(own))?;
        let doorbells: Arc<[Doorbell]> = segment.doorbells(flags).into();
        let has_cores = spin::has_core_for_each(segment.ranks());
        let seen = doorbells[own].count();
        Ok(Self {
            own,
            part,
            doorbells,
            seen,
            ring_spin: SpinPolicy::new(spin::RINGS, has_cores),
            slot_spin: SpinPolicy::new(spin::SLOTS, has_cores),
        })
    }

    /// Puts what fits of `bytes`.
    pub(crate) fn send(
        &mut self,
        peer: usize,
        lane: Lane,
        bytes: &[u8],
    ) -> std::result::Result<usize, Corrupt> {
        let mut sent = 0;
        while sent < bytes.len() {
            let length = self.part.producers[peer][lane as usize].push(&bytes[sent..])?;
            if length == 0 {
                break;
            }
            sent += length;
            self.doorbells[peer].notify();
        }
        Ok(sent)
    }

    /// Takes what is there, up to the length of `buffer`.
    pub(crate) fn recv(
        &mut self,
        peer: usize,
        lane: Lane,
        buffer: &mut [u8],
    ) -> std::result::Result<usize, Corrupt> {
        let mut received = 0;
        while received < buffer.len() {
            let length = self.part.consumers[peer][lane as usize].pop(&mut buffer[received..])?;
            if length == 0 {
                break;
            }
            received += length;
            self.doorbells[peer].notify();
        }
        Ok(received)
    }

    pub(crate) fn can_send(&self, peer: usize, lane: Lane) -> bool {
        // What makes no sense is work too: the next `send` reports it.
        self.part.producers[peer][lane as usize].space() != Ok(0)
    }

    pub(crate) fn can_recv(&self, peer: usize, lane: Lane) -> bool {
        self.part.consumers[peer][lane as usize].available() != Ok(0)
    }

    /// Whether a control message of any peer is there.
    pub(crate) fn has_control(&self) -> bool {
        (0..self.doorbells.len()).any(|peer| self.can_recv(peer, Lane::Control))
    }

    /// Spins before a wait sleeps; true if there is work, or the bell was rung.
    pub(crate) fn spin(&self, deadline: Option<Instant>, has_work: impl Fn() -> bool) -> bool {
        let mut spin = self.ring_spin.start(deadline);
        while !has_work() && self.bell().count() == self.seen {
            if !spin.again() {
                return false;
            }
        }
        true
    }

    /// This rank's doorbell.
    pub(crate) fn bell(&self) -> &Doorbell {
        &self.doorbells[self.own]
    }

    /// What the bell had counted when the last wait ended.
    pub(crate) fn seen(&self) -> u32 {
        self.seen
    }

    /// A wait is over; rings that come from here on end the next one.
    pub(crate) fn awake(&mut self) {
        self.seen = self.bell().count();
    }

    pub(crate) fn waker(&self) -> Waker {
        let (doorbells, own) = (Arc::downgrade(&self.doorbells), self.own);
        Waker::new(move || {
            if let Some(doorbells) = doorbells.upgrade() {
                doorbells[own].ring();
            }
        })
    }
}
