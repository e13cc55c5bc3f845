//! What the flight recorder answers to a status query.

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
        let mut chosen: Vec<Record> = pending.into_iter().take(MAX_OPERATIONS / 2).collect();
        let room = MAX_OPERATIONS - chosen.len();
        let skipped = ended.len().saturating_sub(room);
        chosen.extend(ended.into_iter().skip(skipped));
        chosen.sort_unstable_by_key(|record| record.number);
        chosen
            .into_iter()
            .map(|record| status(record, now))
            .collect()
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
