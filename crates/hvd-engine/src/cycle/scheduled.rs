//! The cycle while a schedule runs: what is submitted goes into the schedule, and operations begin when all
//! ranks have called for them. What the rules are stands in `schedule/mod.rs`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hvd_transport::Wake;
use hvd_types::{ProcessSetId, Rank};
use hvd_wire::{MessageKind, Operation, Schedule, ScheduleCommand, SetChange};

use super::Cycle;
use crate::execute::inlined;
use crate::local_set::LocalSet;
use crate::queue::BoxedEntry;
use crate::schedule::progress::ScheduleProgress;
use crate::schedule::ready_barrier::BarrierStep;
use crate::{Error, Result};

/// How long somebody waits for an operation that lacks tensors before it is negotiated. A program
/// that waits has usually submitted what it has; another thread of it might come with more.
const BLOCKED: Duration = Duration::from_millis(2);

/// How long operations that nobody will say it waits for wait for others that the schedule lacks, after the
/// last of them came. Their program may be blocked by one of them all the same. Longer than most
/// gaps between the gradients of a step.
const QUIET: Duration = Duration::from_millis(20);

/// What was submitted and is not announced before the schedule has ended.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) entries: Vec<BoxedEntry>,
    pub(super) changes: Vec<SetChange>,
    pub(super) shutdown: bool,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.changes.is_empty() && !self.shutdown
    }
}

impl Cycle {
    /// Takes what was submitted into the schedule. What does not fit is held back and ends it.
    pub(super) fn enter(&mut self, entries: Vec<BoxedEntry>, now: Instant) -> Result<()> {
        let (Some(progress), Some(global)) =
            (&mut self.progress, self.sets.get_mut(&ProcessSetId::GLOBAL))
        else {
            return Ok(());
        };
        if !global.has_pending() {
            progress.waits_since(now);
        }
        for mut entry in entries {
            self.observer.announced(&mut entry, now);
            if entry.has_callback() {
                self.callback_since = Some(now);
            }
            if entry.process_set == ProcessSetId::GLOBAL {
                if let Err(entry) = global.enter(entry, progress) {
                    self.held.entries.push(entry);
                }
            } else {
                self.held.entries.push(entry);
            }
        }
        if self.held.is_empty() {
            Ok(())
        } else {
            self.halt()
        }
    }

    /// Does what the schedule has to do now; true if that was anything.
    pub(super) fn follow_schedule(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(progress) = &self.progress {
            if progress.is_ready() {
                self.call_out()?;
                moved = true;
            } else if progress.has_called() && self.all_have_called()?.is_none() {
                self.execute_scheduled()?;
                moved = true;
            } else {
                break;
            }
        }
        Ok(moved)
    }

    /// Tells others that this rank has everything for the next operation.
    fn call_out(&mut self) -> Result<()> {
        let Some(progress) = &mut self.progress else {
            return Ok(());
        };
        progress.call();
        let (operation, is_inlined) = progress.current();
        self.notice.schedule = progress.number();
        self.notice.operation = progress.next();
        self.notice.tensors.clear();
        if is_inlined && let Some(global) = self.sets.get(&ProcessSetId::GLOBAL) {
            let sources = global.sources(&operation);
            let there = inlined::gather(&operation, sources, &mut self.notice.tensors);
            if !there.map_err(|error| Error::Internal(error.to_string()))? {
                let text = "a tensor of the schedule is not there".to_owned();
                return Err(Error::Internal(text));
            }
        }
        let told = self.ready_barrier.first_told();
        self.send_notice(&told)
    }

    fn send_notice(&mut self, to: &[Rank]) -> Result<()> {
        let notice = &self.notice;
        let addressed = |peer| to.contains(&peer);
        let count = self
            .control
            .post(MessageKind::ReadyNotice, addressed, |out| {
                notice.encode(out);
            })?;
        self.counters.ready_notices.add(count);
        self.control.flush(&mut *self.transport)
    }

    /// A rank that has not called for the operation that this one has called for; none if all have.
    fn all_have_called(&mut self) -> Result<Option<Rank>> {
        loop {
            let (schedule, operation) = (self.notice.schedule, self.notice.operation);
            match self.ready_barrier.step(schedule, operation) {
                BarrierStep::Complete => return Ok(None),
                BarrierStep::Waiting(rank) => return Ok(Some(rank)),
                BarrierStep::Notify(rank) => self.send_notice(&[rank])?,
            }
        }
    }

    /// Executes the operation that all have called for.
    fn execute_scheduled(&mut self) -> Result<()> {
        // `SCHEDULE-4`: a lane that is still being connected has taken nothing yet.
        let told = self.ready_barrier.partners();
        if self.control.holds_back(told) {
            self.control.insist(&mut *self.transport, told)?;
        }
        let Some(progress) = &self.progress else {
            return Ok(());
        };
        let (operation, is_inlined) = progress.current();
        let mut notices = self.ready_barrier.take_tensors();
        if is_inlined {
            let me = self.transport.rank().index();
            if let Some(own) = notices.get_mut(me) {
                std::mem::swap(own, &mut self.notice.tensors);
            }
            self.observed(ProcessSetId::GLOBAL, &operation, |cycle, tasks| {
                cycle.executor.execute_inlined(&operation, tasks, &notices)
            })?;
        } else {
            self.execute(ProcessSetId::GLOBAL, &operation)?;
        }
        self.counters.scheduled_operations.add(1);
        if let Some(progress) = &mut self.progress {
            progress.executed(Instant::now());
        }
        Ok(())
    }

    /// Follows what the coordinator says of the schedule.
    pub(super) fn follow_command(&mut self, command: ScheduleCommand) -> Result<()> {
        let is_current = |cycle: &Self, number| {
            cycle.progress.as_ref().map(ScheduleProgress::number) == Some(number)
        };
        match command {
            ScheduleCommand::Begin(schedule) => self.begin_schedule(schedule),
            ScheduleCommand::Halt(number) if is_current(self, number) => self.halt(),
            ScheduleCommand::End { number, next } if is_current(self, number) => {
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
        let carries_tensors = self.ready_barrier.carries_tensors();
        let global = self.set(ProcessSetId::GLOBAL)?;
        let is_inlined = |operation: &Operation| {
            let bytes = global.bytes(operation)?;
            Some(carries_tensors && inlined::is_inlined(operation, bytes))
        };
        let progress = ScheduleProgress::new(schedule, Instant::now(), is_inlined);
        let mut progress = progress.map_err(|error| Error::Internal(error.to_string()))?;
        let fits = global.enter_pending(&mut progress);
        let callback = global.has_callbacks();
        self.callback_since = callback.then(Instant::now);
        self.progress = Some(progress);
        let mut others = self.sets.iter();
        let others_wait = others.any(|(&id, set)| id != ProcessSetId::GLOBAL && set.has_pending());
        if fits && !others_wait {
            Ok(())
        } else {
            self.halt()
        }
    }

    /// Goes on no more with the schedule, and says so to the coordinator.
    pub(super) fn halt(&mut self) -> Result<()> {
        let Some(halted) = self.progress.as_mut().and_then(ScheduleProgress::halt) else {
            return Ok(());
        };
        let mut message = self.set(ProcessSetId::GLOBAL)?.announcement();
        message.halted = Some(halted);
        self.tell(message)?;
        self.control.flush(&mut *self.transport)
    }

    /// Executes what all ranks have called for, and announces the rest.
    fn end_schedule(&mut self, next: u64) -> Result<()> {
        while self
            .progress
            .as_ref()
            .is_some_and(|progress| progress.next() < next)
        {
            self.await_all_calls()?;
            self.execute_scheduled()?;
        }
        self.progress = None;
        let mut messages = BTreeMap::new();
        let global = self.set(ProcessSetId::GLOBAL)?;
        if global.has_pending() {
            let mut message = global.announcement();
            global.announce_pending(&mut message);
            messages.insert(ProcessSetId::GLOBAL, message);
        }
        for entry in std::mem::take(&mut self.held.entries) {
            self.sort_in(entry, &mut messages);
        }
        self.tell_all(messages)?;
        self.control.flush(&mut *self.transport)
    }

    /// Waits until everybody's call has arrived, which is on its way (`SCHEDULE-2`).
    fn await_all_calls(&mut self) -> Result<()> {
        let end = Instant::now() + self.transport.progress_timeout();
        while let Some(rank) = self.all_have_called()? {
            // The others wait for this rank's calls as it waits for theirs.
            self.control.flush(&mut *self.transport)?;
            if self.control.wait(&mut *self.transport, Some(end))? == Wake::TimedOut {
                return Err(self.transport.stalled(rank).into());
            }
            self.listen()?;
        }
        Ok(())
    }

    /// When waiting tensors are to be negotiated instead.
    pub(super) fn schedule_due(&mut self) -> Option<Instant> {
        let lacking = self.lacks_tensors() && self.queue.has_waiters();
        self.lacking_since = lacking.then(|| self.lacking_since.unwrap_or_else(Instant::now));
        let waits = self.waits_for_schedule();
        let due = self.progress.as_ref().filter(|_| waits)?.due()?;
        let blocked = self.lacking_since.map(|since| since + BLOCKED);
        let callback = self.callback_since.filter(|_| self.lacks_tensors());
        let quiet = callback.map(|since| since + QUIET);
        [Some(due), blocked, quiet].into_iter().flatten().min()
    }

    /// Whether tensors wait for others that were not submitted here.
    pub(super) fn lacks_tensors(&self) -> bool {
        self.waits_for_schedule()
            && self
                .progress
                .as_ref()
                .is_some_and(ScheduleProgress::lacks_tensors)
    }

    fn waits_for_schedule(&self) -> bool {
        let global = self.sets.get(&ProcessSetId::GLOBAL);
        self.progress.is_some() && global.is_some_and(LocalSet::has_pending)
    }

    /// Submissions until there is anything to do.
    pub(super) fn wanted(&self) -> usize {
        self.progress.as_ref().map_or(1, ScheduleProgress::wanted)
    }
}
