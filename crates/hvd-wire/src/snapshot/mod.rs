//! A snapshot of one rank for diagnosis: its last operations and the stacks of its threads. Taken by
//! the rank's own threads, read by rank 0 for the stall warning and by `horovodrun debug`. Its
//! encoding is at most [`MAX_SNAPSHOT_BYTES`] long, however long names and stacks are.
//!
//! Must not know how a stack is obtained, or who asks.

mod codec;
mod stack;

use std::time::Duration;

use hvd_types::{OpKind, ProcessSetId, Rank};

pub use stack::{Origin, Position, StackFrame, ThreadStack};

/// The largest encoded snapshot.
pub const MAX_SNAPSHOT_BYTES: usize = 48 * 1024;

/// The most operations in a snapshot.
pub const MAX_OPERATIONS: usize = 64;

/// How far an operation got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OperationState {
    /// Accepted from a caller.
    Submitted = 0,
    /// Announced to the coordinator.
    Negotiating = 1,
    /// Agreed on and under way.
    Executing = 2,
    /// Over, with a result.
    Done = 3,
    /// Over, with an error.
    Failed = 4,
}

impl OperationState {
    /// Every state, by its number.
    pub const ALL: [Self; 5] = [
        Self::Submitted,
        Self::Negotiating,
        Self::Executing,
        Self::Done,
        Self::Failed,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Negotiating => "negotiating",
            Self::Executing => "executing",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Which of an operation's times is the moment of reaching this state.
    pub const fn phase(self) -> usize {
        match self {
            Self::Submitted => 0,
            Self::Negotiating => 1,
            Self::Executing => 2,
            Self::Done | Self::Failed => 3,
        }
    }

    /// Whether the operation has ended.
    pub const fn is_over(self) -> bool {
        self.phase() == 3
    }
}

/// One operation of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStatus {
    /// The tensor's name, perhaps truncated.
    pub name: String,
    /// What is done with it.
    pub kind: OpKind,
    /// How far it got.
    pub state: OperationState,
    /// The process set it runs in.
    pub process_set: ProcessSetId,
    /// How long ago it was submitted, announced, begun and ended.
    pub ago: [Option<Duration>; 4],
}

impl OperationStatus {
    /// How long ago it reached its present state.
    pub fn since(&self) -> Duration {
        self.ago[self.state.phase()]
            .or(self.ago[0])
            .unwrap_or_default()
    }

    /// How long ago it was submitted.
    pub fn submitted(&self) -> Duration {
        self.ago[0].unwrap_or_default()
    }
}

/// One rank's snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankSnapshot {
    /// Its process ID.
    pub process: u32,
    /// What carries its bytes, and why.
    pub wires: String,
    /// Its last operations, oldest first.
    pub operations: Vec<OperationStatus>,
    /// The program's threads, the main one first; none if they are unknown.
    pub threads: Vec<ThreadStack>,
    /// Why they are unknown, if so.
    pub unknown: String,
}

impl RankSnapshot {
    /// Operations that have not ended, oldest first.
    pub fn pending(&self) -> impl DoubleEndedIterator<Item = &OperationStatus> {
        self.operations
            .iter()
            .filter(|operation| !operation.state.is_over())
    }

    /// The operation that ended last.
    pub fn last_ended(&self) -> Option<&OperationStatus> {
        let ended = self.operations.iter().filter(|it| it.state.is_over());
        ended.min_by_key(|operation| operation.since())
    }

    /// The position of the program's main thread.
    pub fn position(&self) -> Option<Position<'_>> {
        self.threads.first().and_then(ThreadStack::position)
    }
}

/// One rank's entry in an answer; without a snapshot if the rank did not answer in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankReport {
    /// The rank.
    pub rank: Rank,
    /// Where it runs.
    pub host: String,
    /// Its snapshot.
    pub snapshot: Option<RankSnapshot>,
}

#[cfg(test)]
mod tests;
