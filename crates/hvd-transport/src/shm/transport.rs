//! [`Transport`] over a [`Segment`]: this rank's ends of its rings, everybody's doorbells.

use std::hint;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hvd_types::Rank;

use super::doorbell::Doorbell;
use super::ring::Corrupt;
use super::segment::{Part, Segment};
use crate::{Abort, Error, Interest, Lane, Result, Transport, Wake, Waker};

/// How long a wait looks before it sleeps, where every rank has a core of its own: about as long
/// as falling asleep and being woken takes.
const SPIN: Duration = Duration::from_micros(50);

/// Looks between two glances at the clock while spinning.
const LOOKS: u32 = 32;

/// One rank's end of the shared memory of its job.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    rank: Rank,
    hosts: Vec<String>,
    patience: Duration,
    abort: Abort,
    part: Part,
    /// By rank. Held in an `Arc` so that wakers do not keep the memory alive.
    doorbells: Arc<[Doorbell]>,
    /// What this rank's doorbell had counted when the last wait ended.
    seen: u32,
    spin: Duration,
}

impl SharedMemory {
    /// Takes the part of `rank` in `segment`.
    pub(crate) fn new(
        segment: &Segment,
        rank: Rank,
        hosts: Vec<String>,
        patience: Duration,
        abort: Abort,
    ) -> Result<Self> {
        let part = segment.claim(rank)?;
        let doorbells: Arc<[Doorbell]> = segment.doorbells().into();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spin = if segment.ranks() <= cores {
            SPIN
        } else {
            Duration::ZERO
        };
        let seen = doorbells[rank.index()].count();
        let this = Self {
            rank,
            hosts,
            patience,
            abort,
            part,
            doorbells,
            seen,
            spin,
        };
        this.abort.on_raise(this.waker());
        Ok(this)
    }

    fn bell(&self) -> &Doorbell {
        &self.doorbells[self.rank.index()]
    }

    fn corrupt(&self, peer: Rank) -> impl FnOnce(Corrupt) -> Error {
        let host = self.hosts[peer.index()].clone();
        move |Corrupt| Error::Corrupted { rank: peer, host }
    }

    fn can_send(&self, peer: Rank, lane: Lane) -> bool {
        // What makes no sense is work too: the next `try_send` reports it.
        self.part.producers[peer.index()][lane as usize].space() != Ok(0)
    }

    fn can_recv(&self, peer: usize, lane: Lane) -> bool {
        self.part.consumers[peer][lane as usize].available() != Ok(0)
    }

    fn has_work(&self, interest: Interest<'_>) -> bool {
        match interest {
            Interest::Data { send, recv } => {
                recv.is_some_and(|peer| self.can_recv(peer.index(), Lane::Data))
                    || send.is_some_and(|peer| self.can_send(peer, Lane::Data))
            }
            Interest::Control { unsent } => {
                (0..self.hosts.len()).any(|peer| self.can_recv(peer, Lane::Control))
                    || unsent
                        .iter()
                        .any(|&peer| self.can_send(peer, Lane::Control))
            }
        }
    }

    /// Looks for work for a short while; true if there is some, or the bell was rung.
    fn spin(&self, interest: Interest<'_>, deadline: Option<Instant>) -> bool {
        let start = Instant::now();
        let end = deadline.map_or(start + self.spin, |deadline| {
            deadline.min(start + self.spin)
        });
        while Instant::now() < end {
            for _ in 0..LOOKS {
                if self.has_work(interest) || self.bell().count() != self.seen {
                    return true;
                }
                hint::spin_loop();
            }
        }
        false
    }
}

impl Transport for SharedMemory {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.hosts.len()
    }

    fn kind(&self) -> &'static str {
        "shared memory"
    }

    fn host_of(&self, rank: Rank) -> &str {
        &self.hosts[rank.index()]
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn try_send(&mut self, peer: Rank, lane: Lane, bytes: &[u8]) -> Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            let ring = &mut self.part.producers[peer.index()][lane as usize];
            let length = ring
                .push(&bytes[sent..])
                .map_err(|corrupt| self.corrupt(peer)(corrupt))?;
            if length == 0 {
                break;
            }
            sent += length;
            self.doorbells[peer.index()].notify();
        }
        if sent == 0 {
            self.abort.check()?;
        }
        Ok(sent)
    }

    fn try_recv(&mut self, peer: Rank, lane: Lane, buffer: &mut [u8]) -> Result<usize> {
        let mut received = 0;
        while received < buffer.len() {
            let ring = &mut self.part.consumers[peer.index()][lane as usize];
            let place = &mut buffer[received..];
            let length = ring
                .pop(place)
                .map_err(|corrupt| self.corrupt(peer)(corrupt))?;
            if length == 0 {
                break;
            }
            received += length;
            self.doorbells[peer.index()].notify();
        }
        if received == 0 {
            self.abort.check()?;
        }
        Ok(received)
    }

    fn wait(&mut self, interest: Interest<'_>, deadline: Option<Instant>) -> Result<Wake> {
        self.abort.check()?;
        let spun = !self.spin.is_zero() && self.spin(interest, deadline);
        let in_time = spun
            || self
                .bell()
                .sleep(self.seen, deadline, || self.has_work(interest))
                .map_err(Error::io("sleeping on shared memory"))?;
        // Rings that come after this line end the next wait.
        self.seen = self.bell().count();
        self.abort.check()?;
        Ok(if in_time { Wake::Event } else { Wake::TimedOut })
    }

    fn waker(&self) -> Waker {
        let (doorbells, own) = (Arc::downgrade(&self.doorbells), self.rank.index());
        Waker::new(move || {
            if let Some(doorbells) = doorbells.upgrade() {
                doorbells[own].ring();
            }
        })
    }
}
