//! The flight recorder: what this rank's last 4096 operations were and how far each one got.
//!
//! Always on, so it must cost next to nothing. The engine thread holds the [`Recorder`], the only
//! writer; any thread may hold a [`History`] and look back. Writing takes no lock and allocates
//! nothing: each record is a fixed number of atomic words under a version number (see
//! [`version_lock`]), so a reader never delays the writer and never sees half a record.
//!
//! - `RING-1` the ring holds the last [`CAPACITY`] operations, oldest first in a snapshot.
//! - `RING-2` a record in a snapshot is as it was at one moment; one that was being overwritten all
//!   the while is left out.
//! - `RING-3` an operation that has left the ring cannot change the one that took its place.
//!
//! Must not know the cycle, nor where a dump is wanted.

mod dump;
mod log;
mod slot;
mod version_lock;

use std::fmt;
use std::sync::{Arc, atomic};
use std::time::{Duration, Instant, SystemTime};

use hvd_types::{DType, OpKind, ProcessSetId, Rank};
pub(crate) use hvd_wire::snapshot::OperationState;

pub use self::log::FlightLog;
use self::slot::RecordSlot;

/// Operations remembered.
pub(crate) const CAPACITY: usize = 4096;

/// The number of an operation on this rank, in the order in which they were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationNumber(u64);

/// An operation as it is recorded at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlightEvent<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: OpKind,
    pub(crate) dtype: DType,
    pub(crate) dimensions: &'a [u64],
    pub(crate) process_set: ProcessSetId,
}

/// An operation as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) number: OperationNumber,
    /// The name; of a long one the beginning and the end, with `...` between.
    pub(crate) name: String,
    pub(crate) kind: OpKind,
    pub(crate) dtype: DType,
    /// The first dimensions, at most eight.
    pub(crate) dimensions: Vec<u64>,
    /// How many dimensions there were.
    pub(crate) dimension_count: usize,
    pub(crate) process_set: ProcessSetId,
    pub(crate) state: OperationState,
    /// When it was submitted, announced, begun and ended, after the start of the recorder.
    pub(crate) times: [Option<Duration>; 4],
}

/// What a dump says about itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) rank: Rank,
    pub(crate) host: &'a str,
    /// Why it is written.
    pub(crate) reason: &'a str,
}

struct EventRing {
    slots: Box<[RecordSlot]>,
    started: Instant,
    started_wall: SystemTime,
}

/// The writing end; there is one.
#[derive(Debug)]
pub(crate) struct Recorder {
    history: History,
    next: u64,
}

/// The reading end, for any thread.
#[derive(Clone)]
pub(crate) struct History {
    ring: Arc<EventRing>,
}

impl Recorder {
    /// An empty ring.
    pub(crate) fn new() -> Self {
        Self::starting_at(Instant::now(), SystemTime::now())
    }

    fn starting_at(started: Instant, started_wall: SystemTime) -> Self {
        let ring = EventRing {
            slots: (0..CAPACITY).map(|_| RecordSlot::default()).collect(),
            started,
            started_wall,
        };
        let ring = Arc::new(ring);
        Self {
            history: History { ring },
            next: 0,
        }
    }

    /// The end to read from.
    pub(crate) fn history(&self) -> History {
        self.history.clone()
    }

    /// Records an operation as submitted at `when`. It takes the place of the oldest.
    pub(crate) fn record(&mut self, event: &FlightEvent<'_>, when: Instant) -> OperationNumber {
        let number = OperationNumber(self.next);
        self.next += 1;
        let since_start = self.history.since_start(when);
        self.history.slot(number).begin(number, event, since_start);
        number
    }

    /// Notes that an operation reached another state. Without effect if it has left the ring.
    pub(crate) fn advance(
        &mut self,
        number: OperationNumber,
        state: OperationState,
        when: Instant,
    ) {
        let since_start = self.history.since_start(when);
        self.history
            .slot(number)
            .advance(number, state, since_start);
    }
}

impl History {
    /// What is remembered, oldest first.
    pub(crate) fn snapshot(&self) -> Vec<Record> {
        let mut records: Vec<_> = self
            .ring
            .slots
            .iter()
            .filter_map(RecordSlot::read)
            .collect();
        records.sort_unstable_by_key(|record| record.number);
        records
    }

    fn slot(&self, number: OperationNumber) -> &RecordSlot {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits choose a slot"
        )]
        let index = number.0 as usize % CAPACITY;
        &self.ring.slots[index]
    }

    fn since_start(&self, when: Instant) -> Duration {
        when.saturating_duration_since(self.ring.started)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
