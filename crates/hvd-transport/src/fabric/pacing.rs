//! How often a wait looks at a fabric, which has nothing to sleep on: without a pause at first,
//! because most waits inside an operation are short, then yielding the core, which a peer on the
//! same machine may need, then with sleeps that grow with the time waited. Does not know what is
//! waited for.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

/// How long a wait polls without a pause, where every rank has a core.
const SPIN: Duration = Duration::from_micros(20);

/// How long it then yields its core between two looks.
const YIELD: Duration = Duration::from_millis(2);

/// The same for messages: while a long one arrives nothing is seen to move until it is complete, and a
/// fabric that is not called does not go on with it.
const YIELD_FOR_MESSAGES: Duration = Duration::from_millis(20);

/// The shortest and longest sleep after that. A peer that computes for milliseconds is met at most
/// this much late.
const SLEEPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// One wait.
#[derive(Debug)]
pub(super) struct Pacing {
    start: Instant,
    spins_until: Duration,
    yields_until: Duration,
}

impl Pacing {
    /// Begins a wait. `has_cores` says whether every rank has a core of its own.
    pub(super) fn start(has_cores: bool) -> Self {
        Self {
            start: Instant::now(),
            spins_until: if has_cores { SPIN } else { Duration::ZERO },
            yields_until: YIELD,
        }
    }

    /// Begins a wait for a message.
    pub(super) fn of_messages(has_cores: bool) -> Self {
        Self {
            yields_until: YIELD_FOR_MESSAGES,
            ..Self::start(has_cores)
        }
    }

    /// Lets a moment pass, or returns how long to sleep.
    pub(super) fn next(&mut self, now: Instant) -> Option<Duration> {
        let waited = now.saturating_duration_since(self.start);
        if waited < self.spins_until {
            hint::spin_loop();
            return None;
        }
        if waited < self.yields_until {
            thread::yield_now();
            return None;
        }
        let [shortest, longest] = SLEEPS;
        Some((waited / 16).clamp(shortest, longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_come_late_and_stay_short() {
        for has_cores in [false, true] {
            let mut pacing = Pacing::start(has_cores);
            let at = |waited: Duration| pacing.start + waited;
            let (early, later, late) = (at(Duration::ZERO), at(YIELD), at(Duration::from_secs(60)));
            assert_eq!(pacing.next(early), None);
            assert_eq!(pacing.next(later), Some(YIELD / 16));
            assert_eq!(pacing.next(late), Some(SLEEPS[1]));
            let mut pacing = Pacing::of_messages(has_cores);
            assert_eq!(pacing.next(pacing.start + YIELD), None);
        }
    }
}
