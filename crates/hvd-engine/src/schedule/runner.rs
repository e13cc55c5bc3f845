//! One rank's run of a steady-state schedule: how far it has come, which ranks have called for the
//! next operation, what is deferred until the schedule ends, and when waiting for it takes too
//! long.
//!
//! It does no I/O and executes nothing: [`ScheduleRunner::step`] says what the cycle has to do
//! next. `schedule/mod.rs` has the rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hvd_types::{ProcessSetId, Rank};
use hvd_wire::{Operation, ReadyNotice, Schedule, ScheduleHalt};

use super::progress::ScheduleProgress;
use super::ready_barrier::{BarrierStep, ReadyBarrier};
use crate::execute::inlined;
use crate::local_set::LocalSet;
use crate::submissions::Submissions;
use crate::{Error, Result};

/// How long a blocked caller waits for an operation that lacks tensors before it is negotiated. A
/// program that waits has usually submitted what it has; another thread of it might come with more.
const BLOCKED: Duration = Duration::from_millis(2);

/// How long operations completed by callback wait for others that the schedule lacks, after the
/// last of them came. Their program may be blocked by one of them all the same. Longer than most
/// gaps between the gradients of a step.
const QUIET: Duration = Duration::from_millis(20);

/// The schedule of one rank, if one runs.
#[derive(Debug)]
pub(crate) struct ScheduleRunner {
    /// The schedule that runs.
    progress: Option<ScheduleProgress>,
    ready_barrier: ReadyBarrier,
    /// What this rank called out last.
    notice: ReadyNotice,
    /// What waits for the end of the schedule.
    deferred: Submissions,
    /// Since when a caller has been blocked by an operation that the schedule lacks tensors for.
    lacking_since: Option<Instant>,
    /// When the last entry that is completed by callback came into the schedule.
    callback_since: Option<Instant>,
}

/// What a rank has to do next for its schedule.
#[derive(Debug, PartialEq)]
pub(crate) enum ScheduleStep<'a> {
    /// Nothing: no schedule runs, or the next operation lacks tensors.
    Idle,
    /// This rank has everything for the next operation: send the notice to these ranks.
    Call(&'a ReadyNotice, &'a [Rank]),
    /// The next round of the ready barrier has begun: send the notice to this rank.
    Forward(&'a ReadyNotice, Rank),
    /// The notice of this rank has not arrived.
    Await(Rank),
    /// All ranks have called: execute [`ScheduleRunner::take_operation`].
    Execute,
}

/// An operation that all ranks have called for.
#[derive(Debug, PartialEq)]
pub(crate) struct ReadyOperation {
    pub(crate) operation: Arc<Operation>,
    /// The tensors of all ranks, by rank, if they travelled with the notices.
    pub(crate) inlined: Option<Vec<Vec<u8>>>,
}

impl ScheduleRunner {
    /// A rank without a schedule, in a job of `size` ranks.
    pub(crate) fn new(rank: Rank, size: usize) -> Self {
        Self {
            progress: None,
            ready_barrier: ReadyBarrier::new(rank, size),
            notice: ReadyNotice {
                schedule: 0,
                operation: 0,
                tensors: Vec::new(),
            },
            deferred: Submissions::default(),
            lacking_since: None,
            callback_since: None,
        }
    }

    /// The ranks with which notices are exchanged.
    pub(crate) fn partners(&self) -> &[Rank] {
        self.ready_barrier.partners()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.progress.is_some()
    }

    /// Whether the schedule of this number runs here.
    pub(crate) fn runs(&self, number: u64) -> bool {
        self.progress.as_ref().map(ScheduleProgress::number) == Some(number)
    }

    /// Whether operations wait for the end of the schedule.
    pub(crate) fn has_deferred_entries(&self) -> bool {
        !self.deferred.entries.is_empty()
    }

    /// Begins a schedule with everything that is pending in the global set. False if something does
    /// not fit, also if `others_wait`, operations of other process sets: the schedule has to halt.
    pub(crate) fn begin(
        &mut self,
        schedule: Schedule,
        global: &LocalSet,
        others_wait: bool,
    ) -> Result<bool> {
        let carries_tensors = self.ready_barrier.carries_tensors();
        let is_inlined = |operation: &Operation| {
            let bytes = global.bytes(operation)?;
            Some(carries_tensors && inlined::is_inlined(operation, bytes))
        };
        let progress = ScheduleProgress::new(schedule, Instant::now(), is_inlined);
        let mut progress = progress.map_err(|error| Error::Internal(error.to_string()))?;
        let fits = global.enter_pending(&mut progress);
        self.callback_since = global.has_callbacks().then(Instant::now);
        self.progress = Some(progress);
        Ok(fits && !others_wait)
    }

    /// Takes submissions into the schedule. False if something does not fit: it is deferred, and
    /// the schedule has to halt.
    pub(crate) fn enter(
        &mut self,
        submissions: Submissions,
        global: &mut LocalSet,
        now: Instant,
    ) -> bool {
        let Submissions {
            entries,
            changes,
            shutdown,
        } = submissions;
        self.deferred.changes.extend(changes);
        self.deferred.shutdown |= shutdown;
        let Some(progress) = &mut self.progress else {
            self.deferred.entries.extend(entries);
            return self.deferred.is_empty();
        };
        if !global.has_pending() {
            progress.waits_since(now);
        }
        for entry in entries {
            if entry.has_callback() {
                self.callback_since = Some(now);
            }
            if entry.process_set == ProcessSetId::GLOBAL {
                if let Err(entry) = global.enter(entry, progress) {
                    self.deferred.entries.push(entry);
                }
            } else {
                self.deferred.entries.push(entry);
            }
        }
        self.deferred.is_empty()
    }

    /// What to do next. A call counts as made when it is returned.
    pub(crate) fn step(&mut self, global: &LocalSet) -> Result<ScheduleStep<'_>> {
        let Some(progress) = &mut self.progress else {
            return Ok(ScheduleStep::Idle);
        };
        if progress.is_ready() {
            progress.call();
            self.prepare_notice(global)?;
            let first = self.ready_barrier.first_notified();
            return Ok(ScheduleStep::Call(&self.notice, first));
        }
        Ok(if progress.has_called() {
            self.barrier_step()
        } else {
            ScheduleStep::Idle
        })
    }

    /// Makes the notice for the operation that this rank calls for.
    fn prepare_notice(&mut self, global: &LocalSet) -> Result<()> {
        let Some(progress) = &self.progress else {
            return Ok(());
        };
        let (operation, is_inlined) = progress.current();
        self.notice.schedule = progress.number();
        self.notice.operation = progress.next();
        self.notice.tensors.clear();
        if is_inlined {
            let sources = global.sources(&operation);
            let complete = inlined::gather(&operation, sources, &mut self.notice.tensors);
            if !complete.map_err(|error| Error::Internal(error.to_string()))? {
                let text = "a tensor of the schedule is not there".to_owned();
                return Err(Error::Internal(text));
            }
        }
        Ok(())
    }

    /// What to do next for the operation that this rank called for last.
    pub(crate) fn barrier_step(&mut self) -> ScheduleStep<'_> {
        let (schedule, operation) = (self.notice.schedule, self.notice.operation);
        match self.ready_barrier.step(schedule, operation) {
            BarrierStep::Complete => ScheduleStep::Execute,
            BarrierStep::Waiting(rank) => ScheduleStep::Await(rank),
            BarrierStep::Notify(rank) => ScheduleStep::Forward(&self.notice, rank),
        }
    }

    /// A notice has arrived.
    pub(crate) fn receive(&mut self, from: Rank, notice: ReadyNotice) {
        self.ready_barrier.receive(from, notice);
    }

    /// The operation that all ranks have called for, with the tensors that came in their notices;
    /// `me` is this rank. [`Self::executed`] has to follow.
    pub(crate) fn take_operation(&mut self, me: Rank) -> Option<ReadyOperation> {
        let (operation, is_inlined) = self.progress.as_ref()?.current();
        let mut tensors = self.ready_barrier.take_tensors();
        if !is_inlined {
            let inlined = None;
            return Some(ReadyOperation { operation, inlined });
        }
        if let Some(own) = tensors.get_mut(me.index()) {
            std::mem::swap(own, &mut self.notice.tensors);
        }
        let inlined = Some(tensors);
        Some(ReadyOperation { operation, inlined })
    }

    /// The operation has been executed.
    pub(crate) fn executed(&mut self, now: Instant) {
        if let Some(progress) = &mut self.progress {
            progress.executed(now);
        }
    }

    /// Calls for nothing more. What rank 0 has to learn of that, if it has not.
    pub(crate) fn halt(&mut self) -> Option<ScheduleHalt> {
        self.progress.as_mut().and_then(ScheduleProgress::halt)
    }

    /// Whether operations before `next`, at which the schedule ends, have to be executed.
    pub(crate) fn has_left(&self, next: u64) -> bool {
        let progress = self.progress.as_ref();
        progress.is_some_and(|progress| progress.next() < next)
    }

    /// Ends the schedule and returns what was deferred.
    pub(crate) fn end(&mut self) -> Submissions {
        self.progress = None;
        std::mem::take(&mut self.deferred)
    }

    /// When tensors that wait are to be negotiated instead. `pending` says whether anything is
    /// pending in the global set, `is_blocked` whether a caller waits while the schedule lacks
    /// tensors.
    pub(crate) fn due(
        &mut self,
        pending: bool,
        is_blocked: bool,
        now: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        self.lacking_since = is_blocked.then(|| self.lacking_since.unwrap_or_else(now));
        let due = self.progress.as_ref().filter(|_| pending)?.due()?;
        let blocked = self.lacking_since.map(|since| since + BLOCKED);
        let callback = self.callback_since.filter(|_| self.lacks_tensors(pending));
        let quiet = callback.map(|since| since + QUIET);
        [Some(due), blocked, quiet].into_iter().flatten().min()
    }

    /// Whether tensors wait for others that were not submitted here.
    pub(crate) fn lacks_tensors(&self, pending: bool) -> bool {
        let progress = self.progress.as_ref().filter(|_| pending);
        progress.is_some_and(ScheduleProgress::lacks_tensors)
    }

    /// Submissions until there is anything to do.
    pub(crate) fn wanted(&self) -> usize {
        self.progress.as_ref().map_or(1, ScheduleProgress::wanted)
    }
}

#[cfg(test)]
mod tests;
