//! Spin, then sleep: how long a wait polls before it lets the kernel put its thread to sleep.
//!
//! Falling asleep and being woken costs tens of microseconds, more if the core goes idle meanwhile;
//! peers often answer sooner. So a wait first polls for a while if every rank has a core of its own,
//! then yields to other threads a few times, since one of them may be the peer, then sleeps. What
//! differs between waits is in their [`SpinLimits`].
//!
//! Waits for connections also adapt ([`Adaptation`]): they do not spin
//!
//! - after a long wait, because the next one is usually long too,
//! - for a while after the scheduler gave the core to another thread in the middle of a spin: then no
//!   core is free, and the spinning thread delays the threads it waits for.
//!
//! Must not know what is waited for, or how to sleep.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

/// How long one kind of wait spins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpinLimits {
    /// How long it polls, where every rank has a core.
    duration: Duration,
    /// Checks between two reads of the clock.
    checks_per_clock: u32,
    /// How often it then yields.
    yields_with_cores: u32,
    /// How often it yields, without having polled, where ranks outnumber cores.
    yields_without_cores: u32,
    adaptation: Option<Adaptation>,
}

/// When a wait does not spin although every rank has a core.
#[derive(Debug, Clone, Copy)]
struct Adaptation {
    /// Time between two reads of the clock after which the core was taken away meanwhile: longer
    /// than interrupts take, shorter than a time slice of the scheduler.
    preempted_after: Duration,
    /// How long waits do not spin after that.
    pause: Duration,
}

/// For bytes in rings of shared memory: about as long as falling asleep and being woken takes.
pub(crate) const RINGS: SpinLimits = SpinLimits {
    duration: Duration::from_micros(50),
    checks_per_clock: 32,
    yields_with_cores: 0,
    yields_without_cores: 20,
    adaptation: None,
};

/// For the counts of shared slots, on which all members of an operation wait in turn.
pub(crate) const SLOTS: SpinLimits = SpinLimits {
    duration: Duration::from_micros(100),
    checks_per_clock: 64,
    yields_with_cores: 100,
    yields_without_cores: 100,
    adaptation: None,
};

/// For connections: longer than a message takes between hosts of one network. Each check is a system
/// call of about a microsecond.
pub(crate) const CONNECTIONS: SpinLimits = SpinLimits {
    duration: Duration::from_micros(400),
    checks_per_clock: 1,
    yields_with_cores: 0,
    yields_without_cores: 0,
    adaptation: Some(Adaptation {
        preempted_after: Duration::from_micros(200),
        pause: Duration::from_millis(50),
    }),
};

/// Whether so many ranks of one machine can each have a core.
pub(crate) fn has_core_for_each(ranks: usize) -> bool {
    ranks <= thread::available_parallelism().map_or(1, usize::from)
}

/// How the waits of one rank spin, and what it has learned from earlier ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpinPolicy {
    limits: SpinLimits,
    has_cores: bool,
    was_short: bool,
    paused_until: Option<Instant>,
}

impl SpinPolicy {
    /// `has_cores` says whether every rank has a core of its own.
    pub(crate) fn new(limits: SpinLimits, has_cores: bool) -> Self {
        Self {
            limits,
            has_cores,
            was_short: true,
            paused_until: None,
        }
    }

    /// Begins a wait, which ends at `deadline`.
    pub(crate) fn start(&self, deadline: Option<Instant>) -> Spin {
        self.start_at(Instant::now(), deadline)
    }

    fn start_at(&self, now: Instant, deadline: Option<Instant>) -> Spin {
        let is_paused = self.paused_until.is_some_and(|end| now < end);
        let is_polling = self.has_cores && self.was_short && !is_paused;
        let end = now + self.limits.duration;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        Spin {
            limits: self.limits,
            start: now,
            end: is_polling.then_some(end),
            clock: now,
            checks: 0,
            yields: if self.has_cores {
                self.limits.yields_with_cores
            } else {
                self.limits.yields_without_cores
            },
            preempted: None,
        }
    }

    /// Learns from a wait that is over, if the limits adapt.
    pub(crate) fn learn(&mut self, spin: &Spin) {
        let Some(adaptation) = self.limits.adaptation else {
            return;
        };
        if let Some(when) = spin.preempted {
            self.paused_until = Some(when + adaptation.pause);
        }
        self.was_short = spin.start.elapsed() <= self.limits.duration;
    }
}

/// One wait before it sleeps: `while spin.again() { check }`.
#[derive(Debug)]
pub(crate) struct Spin {
    limits: SpinLimits,
    start: Instant,
    /// Until when it polls; none if it does not, or no more.
    end: Option<Instant>,
    /// When the clock was last read.
    clock: Instant,
    checks: u32,
    /// How often it may still yield.
    yields: u32,
    preempted: Option<Instant>,
}

impl Spin {
    /// Whether there is anything to do before sleeping.
    pub(crate) fn is_active(&self) -> bool {
        self.end.is_some() || self.yields > 0
    }

    /// When the clock was last read.
    pub(crate) fn clock(&self) -> Instant {
        self.clock
    }

    /// Lets a moment pass; false if it is time to sleep.
    pub(crate) fn again(&mut self) -> bool {
        if let Some(end) = self.end {
            self.checks += 1;
            let is_clock_due = self.checks.is_multiple_of(self.limits.checks_per_clock);
            if !is_clock_due || (!self.is_preempted() && self.clock < end) {
                hint::spin_loop();
                return true;
            }
            self.end = None;
        }
        if self.yields == 0 {
            return false;
        }
        self.yields -= 1;
        thread::yield_now();
        true
    }

    /// Reads the clock, and notices whether the core was taken away since the last time.
    pub(crate) fn is_preempted(&mut self) -> bool {
        let now = Instant::now();
        let gap = now - self.clock;
        self.clock = now;
        let adaptation = self.limits.adaptation;
        let is_preempted = adaptation.is_some_and(|it| gap > it.preempted_after);
        if is_preempted {
            self.preempted = Some(now);
        }
        is_preempted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(limits: SpinLimits) -> Duration {
        limits.adaptation.unwrap().pause
    }

    #[test]
    fn connections_are_polled_while_waits_are_short_and_the_core_is_not_taken_away() {
        let now = Instant::now();
        let mut policy = SpinPolicy::new(CONNECTIONS, true);
        let end = |policy: &SpinPolicy, now| policy.start_at(now, None).end;
        assert_eq!(end(&policy, now), Some(now + CONNECTIONS.duration));
        policy.was_short = false;
        assert_eq!(end(&policy, now), None);
        policy.was_short = true;
        let later = now + pause(CONNECTIONS);
        policy.paused_until = Some(later);
        assert_eq!(end(&policy, now), None);
        assert_eq!(end(&policy, later), Some(later + CONNECTIONS.duration));
    }

    #[test]
    fn a_deadline_ends_a_spin() {
        let now = Instant::now();
        let soon = now + CONNECTIONS.duration / 2;
        let policy = SpinPolicy::new(CONNECTIONS, true);
        assert_eq!(policy.start_at(now, Some(soon)).end, Some(soon));
        let late = policy.start_at(now, Some(now + 4 * CONNECTIONS.duration));
        assert_eq!(late.end, Some(now + CONNECTIONS.duration));
    }

    #[test]
    fn waits_only_yield_where_ranks_outnumber_cores() {
        for limits in [RINGS, SLOTS, CONNECTIONS] {
            let mut spin = SpinPolicy::new(limits, false).start(None);
            assert_eq!(spin.is_active(), limits.yields_without_cores > 0);
            let mut checks = 0;
            while spin.again() {
                checks += 1;
            }
            assert_eq!(checks, limits.yields_without_cores);
            assert!(!spin.is_active());
        }
    }

    #[test]
    fn a_spin_ends_by_itself_and_yields_afterwards() {
        let mut spin = SpinPolicy::new(SLOTS, true).start(None);
        let mut checks = 0;
        while spin.again() {
            checks += 1;
        }
        assert!(spin.start.elapsed() >= SLOTS.duration);
        // At least one batch without the clock, then all yields.
        assert!(checks >= SLOTS.checks_per_clock - 1 + SLOTS.yields_with_cores);
    }

    #[test]
    fn a_core_that_is_taken_away_ends_a_spin_and_is_remembered() {
        let mut policy = SpinPolicy::new(CONNECTIONS, true);
        let mut spin = policy.start(None);
        spin.clock -= pause(CONNECTIONS);
        assert!(!spin.again());
        policy.learn(&spin);
        let when = spin.preempted.unwrap();
        assert_eq!(policy.paused_until, Some(when + pause(CONNECTIONS)));
    }

    #[test]
    fn long_waits_are_remembered_where_the_limits_adapt() {
        for (limits, is_short) in [(CONNECTIONS, false), (SLOTS, true)] {
            let mut policy = SpinPolicy::new(limits, true);
            let mut spin = policy.start(None);
            spin.start -= 2 * limits.duration;
            policy.learn(&spin);
            assert_eq!(policy.was_short, is_short);
        }
    }
}
