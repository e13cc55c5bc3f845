//! The schedule that runs, as a relay sees it: what came before it, and which ranks below follow
//! it.
//!
//! The first rank that halts is passed up at once, so that rank 0 can halt all; the others together
//! once all below have halted. So a schedule's end costs a relay two messages, however many are
//! below.

use hvd_types::{ProcessSetId, Ranks};
use hvd_wire::{ScheduleHalt, SharedRequestList};

/// What is known of the schedule that runs.
#[derive(Debug)]
pub(super) struct Halts {
    schedule: u64,
    /// The response list with which it began.
    since: u64,
    /// Those whose halt was passed up.
    passed_up: Ranks,
    /// Those whose halt was not.
    held: Ranks,
    /// The least that any of these has come.
    next: u64,
}

impl Halts {
    /// A schedule began with the response list `since`.
    pub(super) fn new(schedule: u64, since: u64) -> Self {
        Self {
            schedule,
            since,
            passed_up: Ranks::default(),
            held: Ranks::default(),
            next: u64::MAX,
        }
    }

    /// Whether something was sent before its senders, which had read no response list after `read`,
    /// knew of the schedule (`SCHEDULE-3`).
    pub(super) fn is_after(&self, read: u64) -> bool {
        read < self.since
    }

    /// Takes in that ranks have halted; `below` are all that can. What is to be passed up, if
    /// anything.
    pub(super) fn take_in(
        &mut self,
        ranks: &Ranks,
        halted: ScheduleHalt,
        below: &Ranks,
    ) -> Option<SharedRequestList> {
        if halted.schedule != self.schedule {
            return Some(halt(ranks.clone(), halted));
        }
        self.held.insert_all(ranks);
        self.next = self.next.min(halted.next);
        let all = self.held.len() + self.passed_up.len() >= below.len();
        if !all && !self.passed_up.is_empty() {
            return None;
        }
        let halted = ScheduleHalt {
            schedule: self.schedule,
            next: std::mem::replace(&mut self.next, u64::MAX),
        };
        self.passed_up.insert_all(&self.held);
        Some(halt(std::mem::take(&mut self.held), halted))
    }
}

/// The message that ranks do not go on with a schedule.
pub(super) fn halt(ranks: Ranks, halted: ScheduleHalt) -> SharedRequestList {
    SharedRequestList {
        process_set: ProcessSetId::GLOBAL,
        ranks,
        halted: Some(halted),
        ..SharedRequestList::default()
    }
}
