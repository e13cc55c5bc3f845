//! One rank's ends of the rings of a [`Segment`], all doorbells, and how it sleeps.
//!
//! Peers are numbered by their index in the segment; the callers know which ranks of the job they
//! are.

use std::hint;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hvd_types::Rank;

use super::doorbell::Doorbell;
use super::ring::Corrupt;
use super::segment::{Segment, SegmentPart};
use crate::os::event::Flag;
use crate::{Lane, Result, Waker};

/// How long a wait looks before it sleeps, where every rank has a core of its own: about as long
/// as falling asleep and being woken takes.
const SPIN: Duration = Duration::from_micros(50);

/// How often a wait lets others run before it sleeps, where ranks outnumber cores.
const YIELDS: u32 = 20;

/// Looks between two glances at the clock while spinning.
const LOOKS: u32 = 32;

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
    spin: Duration,
}

impl Rings {
    /// Takes index `own` of `segment`. With `flags`, one per index, ranks sleep on those, else on
    /// the memory itself.
    pub(crate) fn new(segment: &Segment, own: usize, flags: &[Arc<Flag>]) -> Result<Self> {
        let part = segment.claim(Rank::from_index(own))?;
        let doorbells: Arc<[Doorbell]> = segment.doorbells(flags).into();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spin = if segment.ranks() <= cores {
            SPIN
        } else {
            Duration::ZERO
        };
        let seen = doorbells[own].count();
        Ok(Self {
            own,
            part,
            doorbells,
            seen,
            spin,
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

    /// Whether a control message of anybody is there.
    pub(crate) fn has_control(&self) -> bool {
        (0..self.doorbells.len()).any(|peer| self.can_recv(peer, Lane::Control))
    }

    /// Looks for work for a short while, if there are cores for that; true if there is some, or
    /// the bell was rung.
    pub(crate) fn spin(&self, deadline: Option<Instant>, has_work: impl Fn() -> bool) -> bool {
        if self.spin.is_zero() {
            return self.give_way(has_work);
        }
        let start = Instant::now();
        let end = deadline.map_or(start + self.spin, |deadline| {
            deadline.min(start + self.spin)
        });
        while Instant::now() < end {
            for _ in 0..LOOKS {
                if has_work() || self.bell().count() != self.seen {
                    return true;
                }
                hint::spin_loop();
            }
        }
        false
    }

    /// As [`Rings::spin`], where ranks outnumber cores: lets others run, of whom one may be the
    /// peer that is waited for.
    fn give_way(&self, has_work: impl Fn() -> bool) -> bool {
        (0..YIELDS).any(|_| {
            thread::yield_now();
            has_work() || self.bell().count() != self.seen
        })
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

    /// Whether every rank of the host has a core of its own.
    pub(super) fn has_cores(&self) -> bool {
        !self.spin.is_zero()
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
