//! Rank 0's half of a schedule: when it begins, and the agreement on where it ends.
//!
//! A pure machine, driven by the coordinator of the global set.

use hvd_wire::{Operation, Schedule, ScheduleCommand, ScheduleHalt};

/// The schedule of a job, on rank 0.
#[derive(Debug)]
pub(crate) struct ScheduleCoordinator {
    ranks: usize,
    /// How many schedules there have been.
    count: u64,
    running: Option<RunningSchedule>,
}

#[derive(Debug)]
struct RunningSchedule {
    number: u64,
    /// Operations of a round.
    round: u64,
    /// The response list with which it began.
    since: u64,
    /// How far each rank has come, once it does not go on.
    halted: Vec<Option<u64>>,
    /// Whether all ranks were asked to halt.
    halt_sent: bool,
}

impl ScheduleCoordinator {
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            ranks,
            count: 0,
            running: None,
        }
    }

    /// Begins a schedule with the response list of the given number.
    pub(crate) fn begin(&mut self, operations: Vec<Operation>, sequence: u64) -> ScheduleCommand {
        self.count += 1;
        self.running = Some(RunningSchedule {
            number: self.count,
            round: operations.len() as u64,
            since: sequence,
            halted: vec![None; self.ranks],
            halt_sent: false,
        });
        ScheduleCommand::Begin(Schedule {
            number: self.count,
            operations,
        })
    }

    /// Whether a schedule runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a message of a rank that has read response lists up to `seen` was sent before its
    /// sender knew of the schedule that runs (`SCHEDULE-3`).
    pub(crate) fn precedes_schedule(&self, seen: u64) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| seen < running.since)
    }

    /// A rank does not go on.
    pub(crate) fn receive(&mut self, position: usize, halted: ScheduleHalt) {
        if let Some(running) = &mut self.running
            && running.number == halted.schedule
        {
            running.halted[position] = Some(halted.next);
        }
    }

    /// The next command, if any; `disturbed` if there is something that a schedule has no place
    /// for. With the end comes the number of rounds that there were.
    pub(crate) fn decide(&mut self, disturbed: bool) -> Option<(ScheduleCommand, Option<u64>)> {
        let running = self.running.as_mut()?;
        let answers = running.halted.iter().flatten().count();
        if answers == self.ranks {
            let next = running.halted.iter().flatten().copied().min()?;
            let (number, rounds) = (running.number, next / running.round.max(1));
            self.running = None;
            return Some((ScheduleCommand::End { number, next }, Some(rounds)));
        }
        if (disturbed || answers > 0) && !running.halt_sent {
            running.halt_sent = true;
            return Some((ScheduleCommand::Halt(running.number), None));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_ends_at_the_first_operation_that_some_rank_has_not_called_for() {
        let mut coordinator = ScheduleCoordinator::new(3);
        assert_eq!(coordinator.decide(true), None);
        let begin = coordinator.begin(Vec::new(), 5);
        assert!(matches!(
            begin,
            ScheduleCommand::Begin(Schedule { number: 1, .. })
        ));
        assert!(coordinator.precedes_schedule(4) && !coordinator.precedes_schedule(5));
        assert_eq!(coordinator.decide(false), None);
        coordinator.receive(
            1,
            ScheduleHalt {
                schedule: 1,
                next: 8,
            },
        );
        assert_eq!(
            coordinator.decide(false),
            Some((ScheduleCommand::Halt(1), None)),
            "said once"
        );
        assert_eq!(coordinator.decide(true), None);
        coordinator.receive(
            0,
            ScheduleHalt {
                schedule: 1,
                next: 7,
            },
        );
        coordinator.receive(
            2,
            ScheduleHalt {
                schedule: 9,
                next: 1,
            },
        );
        assert_eq!(coordinator.decide(true), None, "another schedule's answer");
        coordinator.receive(
            2,
            ScheduleHalt {
                schedule: 1,
                next: 8,
            },
        );
        let end = ScheduleCommand::End { number: 1, next: 7 };
        assert_eq!(coordinator.decide(false), Some((end, Some(7))));
        assert!(!coordinator.is_running());
    }
}
