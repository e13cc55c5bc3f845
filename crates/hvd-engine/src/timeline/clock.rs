//! The time a timeline goes by, so that tests can make up their own.

use std::time::{Instant, SystemTime};

/// A source of time.
pub(super) trait Clock: Send + Sync {
    /// For distances between events.
    fn now(&self) -> Instant;
    /// For the moment of the start.
    fn wall(&self) -> SystemTime;
}

/// The machine's clocks.
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}
