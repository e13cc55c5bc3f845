//! What a rank tells about itself when it is asked: its last operations, and where its program
//! stands. Made by the rank's own threads, read by rank 0 for the stall warning and by
//! `horovodrun debug`. As bytes it is bounded ([`LONGEST`]), however long names and stacks are.
//!
//! Must not know how a stack is obtained, or who asks.

mod codec;
mod frame;

use std::time::Duration;

use hvd_types::{OpKind, ProcessSetId, Rank};

pub use frame::{Frame, Origin, Position, Thread};

/// The most bytes one testimony takes.
pub const LONGEST: usize = 48 * 1024;

/// The most operations it tells about.
pub const MOST_OPERATIONS: usize = 64;

/// How far an operation got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
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

impl State {
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

/// One operation, as told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The tensor's name, perhaps shortened.
    pub name: String,
    /// What is done with it.
    pub kind: OpKind,
    /// How far it got.
    pub state: State,
    /// Between whom.
    pub process_set: ProcessSetId,
    /// How long ago it was submitted, announced, begun and ended.
    pub ago: [Option<Duration>; 4],
}

impl Note {
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

/// What one rank tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Testimony {
    /// The number of its process.
    pub process: u32,
    /// Its last operations, oldest first.
    pub operations: Vec<Note>,
    /// The program's threads, the main one first; none if they are unknown.
    pub threads: Vec<Thread>,
    /// Why they are unknown, if so.
    pub unknown: String,
}

impl Testimony {
    /// Operations that have not ended, oldest first.
    pub fn pending(&self) -> impl DoubleEndedIterator<Item = &Note> {
        self.operations
            .iter()
            .filter(|operation| !operation.state.is_over())
    }

    /// The operation that ended last.
    pub fn last_ended(&self) -> Option<&Note> {
        let ended = self.operations.iter().filter(|it| it.state.is_over());
        ended.min_by_key(|operation| operation.since())
    }

    /// Where the program's main thread stands.
    pub fn position(&self) -> Option<Position<'_>> {
        self.threads.first().and_then(Thread::position)
    }
}

/// What was heard of one rank; nothing if it did not answer in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The rank.
    pub rank: Rank,
    /// Where it runs.
    pub host: String,
    /// What it said.
    pub testimony: Option<Testimony>,
}

#[cfg(test)]
mod tests;
