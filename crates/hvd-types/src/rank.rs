//! Newtypes for the numbers that name a process or a set of processes, so that one is never taken
//! for the other.

use std::fmt;

/// The number of a process in its job, 0 to size - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rank(u32);

impl Rank {
    /// The rank that coordinates a job's negotiation.
    pub const COORDINATOR: Self = Self(0);

    /// A rank from its number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// A rank from a position in a list.
    ///
    /// # Panics
    /// If the list has more than `u32::MAX` members, which no job has.
    pub fn from_index(index: usize) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "a job of four thousand million ranks is a bug"
        )]
        Self(u32::try_from(index).expect("rank fits 32 bits"))
    }

    /// The number itself.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The rank as a position in a list of all ranks.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a process set; set 0 holds every rank and always exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProcessSetId(u32);

impl ProcessSetId {
    /// The set of all ranks.
    pub const GLOBAL: Self = Self(0);

    /// A process set from its number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ProcessSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
