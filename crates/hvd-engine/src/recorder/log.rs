//! What the flight recorder tells whoever asks this rank how it stands.

use std::time::{Duration, Instant};

use hvd_wire::snapshot::{MAX_OPERATIONS, OperationStatus};

use super::{History, Record};

/// A view of this rank's last operations, for any thread. It outlives the engine.
#[derive(Debug, Clone)]
pub struct FlightLog(pub(crate) History);

impl FlightLog {
    /// The last operations, oldest first. Those under way come before those that have ended: one
    /// that waits since long ago is not crowded out by the many that came after it.
    pub fn operations(&self) -> Vec<OperationStatus> {
        let now = self.0.since_start(Instant::now());
        let (pending, ended): (Vec<_>, Vec<_>) = self
            .0
            .snapshot()
            .into_iter()
            .partition(|record| !record.state.is_over());
        let mut told: Vec<Record> = pending.into_iter().take(MAX_OPERATIONS / 2).collect();
        let room = MAX_OPERATIONS - told.len();
        let skipped = ended.len().saturating_sub(room);
        told.extend(ended.into_iter().skip(skipped));
        told.sort_unstable_by_key(|record| record.number);
        told.into_iter().map(|record| status(record, now)).collect()
    }
}

fn status(record: Record, now: Duration) -> OperationStatus {
    OperationStatus {
        name: record.name,
        kind: record.kind,
        state: record.state,
        process_set: record.process_set,
        ago: record
            .times
            .map(|time| time.map(|time| now.saturating_sub(time))),
    }
}
