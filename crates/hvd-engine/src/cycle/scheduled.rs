//! The cycle while a schedule runs: sends the notices, executes the operations and follows the
//! commands that [`ScheduleRunner`](crate::schedule::runner::ScheduleRunner) and rank 0 call for.
//! The rules are in `schedule/mod.rs`.

use std::time::Instant;

use hvd_transport::Wake;
use hvd_types::ProcessSetId;
use hvd_wire::{Schedule, ScheduleCommand};

use super::Cycle;
use crate::schedule::runner::{ReadyOperation, ScheduleStep};
use crate::{Error, Result};

impl Cycle {
    /// Does what the schedule has to do now; true if that was anything.
    pub(super) fn follow_schedule(&mut self) -> Result<bool> {
        let mut moved = false;
        while self.schedule.is_running() {
            let (session, transport) = (&mut self.session, &mut *self.transport);
            match self.schedule.step(self.sets.global()?)? {
                ScheduleStep::Call(notice, to) => {
                    session.send_notice(transport, notice, to)?;
                    moved = true;
                }
                ScheduleStep::Forward(notice, to) => {
                    session.send_notice(transport, notice, &[to])?;
                }
                ScheduleStep::Execute => {
                    self.execute_scheduled()?;
                    moved = true;
                }
                ScheduleStep::Await(_) | ScheduleStep::Idle => break,
            }
        }
        Ok(moved)
    }

    /// Executes the operation that all ranks have called for.
    fn execute_scheduled(&mut self) -> Result<()> {
        // `SCHEDULE-4`: a lane that is still being connected has taken nothing yet.
        let partners = self.schedule.partners();
        self.session
            .finish_notices(&mut *self.transport, partners)?;
        let me = self.transport.rank();
        let Some(ReadyOperation { operation, inlined }) = self.schedule.take_operation(me) else {
            return Ok(());
        };
        match inlined {
            Some(tensors) => self.observed(ProcessSetId::GLOBAL, &operation, |cycle, tasks| {
                cycle.executor.execute_inlined(&operation, tasks, &tensors)
            })?,
            None => self.execute(ProcessSetId::GLOBAL, &operation)?,
        }
        self.counters.scheduled_operations.add(1);
        self.schedule.executed(Instant::now());
        Ok(())
    }

    /// Follows a command of rank 0 about the schedule.
    pub(super) fn follow_schedule_command(&mut self, command: ScheduleCommand) -> Result<()> {
        match command {
            ScheduleCommand::Begin(schedule) => self.begin_schedule(schedule),
            ScheduleCommand::Halt(number) if self.schedule.runs(number) => self.halt_schedule(),
            ScheduleCommand::End { number, next } if self.schedule.runs(number) => {
                self.end_schedule(next)
            }
            ScheduleCommand::Halt(number) | ScheduleCommand::End { number, .. } => {
                let text =
                    format!("got a command for schedule {number}, which is not running here");
                Err(Error::Internal(text))
            }
        }
    }

    fn begin_schedule(&mut self, schedule: Schedule) -> Result<()> {
        self.counters.schedules.add(1);
        let others_wait = self.sets.others_have_pending();
        let global = self.sets.global()?;
        if self.schedule.begin(schedule, global, others_wait)? {
            Ok(())
        } else {
            self.halt_schedule()
        }
    }

    /// Calls for nothing more, and announces that to rank 0.
    pub(super) fn halt_schedule(&mut self) -> Result<()> {
        let Some(halted) = self.schedule.halt() else {
            return Ok(());
        };
        let mut message = self.sets.global()?.announcement();
        message.halted = Some(halted);
        self.session.announce(message)?;
        self.session.flush(&mut *self.transport)
    }

    /// Executes what all ranks have called for, and announces the rest.
    fn end_schedule(&mut self, next: u64) -> Result<()> {
        while self.schedule.has_left(next) {
            self.await_all_calls()?;
            self.execute_scheduled()?;
        }
        let deferred = self.schedule.end();
        let announcements = self.sets.announce_pending(deferred)?;
        self.announce(announcements)?;
        self.session.flush(&mut *self.transport)
    }

    /// Waits until the calls of all ranks have arrived, which are on their way (`SCHEDULE-2`).
    fn await_all_calls(&mut self) -> Result<()> {
        let end = Instant::now() + self.transport.progress_timeout();
        loop {
            let rank = match self.schedule.barrier_step() {
                ScheduleStep::Forward(notice, to) => {
                    let transport = &mut *self.transport;
                    self.session.send_notice(transport, notice, &[to])?;
                    continue;
                }
                ScheduleStep::Await(rank) => rank,
                ScheduleStep::Execute | ScheduleStep::Call(..) | ScheduleStep::Idle => {
                    return Ok(());
                }
            };
            // The others wait for this rank's calls as it waits for theirs.
            self.session.flush(&mut *self.transport)?;
            if self.session.wait(&mut *self.transport, Some(end))? == Wake::TimedOut {
                return Err(self.transport.stalled(rank).into());
            }
            self.receive()?;
        }
    }
}
