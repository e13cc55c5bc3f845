//! What is done over and over: drain, negotiate, execute, sleep; and nothing else.
//!
//! One thread at a time runs it (`cycle_owner.rs`), so nothing here needs a lock. A turn that did
//! something is followed by another; a turn that found nothing to do ends in the transport's wait,
//! which a submission, a message or an abort ends. No timer is involved unless a cycle time was
//! asked for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use hvd_transport::{Failure, StatusQuery, Transport, Wake, Waker};
use hvd_types::{ProcessSetId, Rank, Topology};
use hvd_wire::{Operation, Response, ResponseList};

use crate::counters::Counters;
use crate::engine::ExitReport;
use crate::execute::team::Hierarchy;
use crate::execute::{Executor, Task};
use crate::handle::OperationOutput;
use crate::negotiate::role::ControlRole;
use crate::negotiate::session::{NegotiationSession, PassDown};
use crate::observe::Observer;
use crate::process_set::ProcessSets;
use crate::process_set_table::{Announcements, ProcessSetTable};
use crate::queue::{Drained, Queue, SetChangeEntry};
use crate::schedule::runner::ScheduleRunner;
use crate::stall::reporter::StallReporter;
use crate::submissions::Submissions;
use crate::{Error, Result};

mod scheduled;

/// Everything one rank's engine works with. The session, the schedule and the sets do not know each
/// other: what passes between them passes through here.
pub(crate) struct Cycle {
    transport: Box<dyn Transport>,
    queue: Arc<Queue>,
    /// The negotiation with the other ranks.
    session: NegotiationSession,
    /// The steady-state schedule, if one runs.
    schedule: ScheduleRunner,
    /// The process sets, and what is pending in them.
    sets: ProcessSetTable,
    executor: Executor,
    observer: Observer,
    /// Finds out about stalled tensors, on rank 0.
    reporter: StallReporter,
    counters: Arc<Counters>,
    /// How it ended, once it has: the rank that asked for the end, or what went wrong.
    exit_status: Option<Result<Rank>>,
}

/// Whether a turn of the cycle found anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnOutcome {
    Busy,
    Idle,
}

impl TurnOutcome {
    pub(crate) fn is_idle(self) -> bool {
        self == Self::Idle
    }
}

impl Cycle {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        queue: Arc<Queue>,
        role: ControlRole,
        registry: Arc<ProcessSets>,
        topology: Topology,
        hierarchy: Hierarchy,
        observer: Observer,
    ) -> Self {
        let counters = Arc::<Counters>::default();
        let rank = transport.rank();
        let schedule = ScheduleRunner::new(rank, transport.size());
        let (partners, count_in) = (schedule.partners(), Arc::clone(&counters));
        Self {
            session: NegotiationSession::new(role, partners, topology.clone(), count_in),
            schedule,
            sets: ProcessSetTable::new(rank, registry, topology),
            executor: Executor::new(hierarchy),
            observer,
            reporter: StallReporter::new(None, transport.waker()),
            transport,
            queue,
            counters,
            exit_status: None,
        }
    }

    /// What it counts.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Has missing ranks asked for their state when tensors stall.
    pub(crate) fn with_status_query(self, status_query: Option<StatusQuery>) -> Self {
        let reporter = StallReporter::new(status_query, self.transport.waker());
        Self { reporter, ..self }
    }

    /// Has algorithms chosen by what they cost on this network.
    pub(crate) fn measure_network(&mut self) {
        self.executor.measure_network();
    }

    /// What ends its sleep.
    pub(crate) fn waker(&self) -> Waker {
        self.transport.waker()
    }

    /// Whether a caller is blocked until the next message.
    pub(crate) fn set_eager(&mut self, eager: bool) {
        self.transport.set_eager(eager);
    }

    /// Whether the engine was shut down or cannot go on.
    pub(crate) fn is_over(&self) -> bool {
        self.exit_status.is_some()
    }

    /// Whether something is under way that this rank will have to go on with.
    pub(crate) fn is_engaged(&self) -> bool {
        self.sets.is_engaged() || self.schedule.has_deferred_entries()
    }

    /// Ends the engine, which is over. Nothing is left pending.
    pub(crate) fn end(mut self, on_exit: impl FnOnce(ExitReport, Box<dyn Transport>)) {
        let result = self.exit_status.clone().unwrap_or(Err(Error::ShutDown));
        let (reason, end) = match result {
            Ok(initiator) => self.shut_down_by(initiator),
            Err(error) => {
                let culprit = self.culprit(&error);
                let me = self.transport.rank();
                let host = self.transport.host_of(me).to_owned();
                self.observer.dump(me, &host, &error.to_string());
                (error, ExitReport::Failed(culprit))
            }
        };
        let unseen = self.queue.close(reason.clone());
        let (pending, changes) = self.sets.into_pending();
        let deferred = self.schedule.end().entries;
        for entry in pending.chain(deferred).chain(unseen) {
            entry.complete(Err(reason.clone()));
        }
        for change in changes {
            change.complete(Err(reason.clone()));
        }
        on_exit(end, self.transport);
    }

    /// How an agreed end looks from here: expected if this rank asked for it too.
    fn shut_down_by(&self, initiator: Rank) -> (Error, ExitReport) {
        if self.session.shutdown_answer_due().is_some() {
            return (Error::ShutDown, ExitReport::Agreed);
        }
        let host = self.transport.host_of(initiator).to_owned();
        let error = Error::ShutDownBy {
            rank: initiator,
            host,
        };
        (error, ExitReport::ShutDownBy(initiator))
    }

    /// The rank to blame: the peer that is gone, or this rank itself if it cannot go on.
    fn culprit(&self, error: &Error) -> Failure {
        match error {
            Error::PeerLost(failure) => failure.clone(),
            other => {
                let rank = self.transport.rank();
                let host = self.transport.host_of(rank).to_owned();
                Failure {
                    rank,
                    host,
                    reason: format!("cannot go on: {other}"),
                }
            }
        }
    }

    /// Does once all there is to do.
    pub(crate) fn turn(&mut self) -> TurnOutcome {
        self.guarded(Self::try_turn).unwrap_or(TurnOutcome::Busy)
    }

    /// Waits until there may be something to do, or `limit` has come.
    pub(crate) fn sleep(&mut self, limit: Option<Instant>) {
        self.guarded(|cycle| cycle.try_sleep(limit));
    }

    /// Does something that may be the end; none if it was.
    fn guarded<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.is_over() {
            return None;
        }
        // A panic is a bug of ours, and all the more a reason to report it to the other ranks:
        // they would wait for this one for ever.
        let result = catch_unwind(AssertUnwindSafe(|| act(self)));
        let result = result.unwrap_or_else(|_| {
            let text = "the engine panicked; the message is above";
            Err(Error::Internal(text.to_owned()))
        });
        result
            .map_err(|error| self.exit_status = Some(Err(error)))
            .ok()
    }

    fn try_turn(&mut self) -> Result<TurnOutcome> {
        let announced = self.drain()?;
        self.receive()?;
        self.session.pass_up(&mut *self.transport)?;
        let mut busy = self.follow_response_lists()? || announced;
        if self.is_over() {
            return Ok(TurnOutcome::Busy);
        }
        busy |= self.follow_schedule()?;
        self.session.pass_up(&mut *self.transport)?;
        Ok(if busy {
            TurnOutcome::Busy
        } else {
            TurnOutcome::Idle
        })
    }

    /// Takes in what was submitted here since the last turn, and announces it unless it is part of
    /// a schedule; true if that was anything.
    fn drain(&mut self) -> Result<bool> {
        let Drained {
            mut entries,
            changes,
            shutdown,
        } = self.queue.drain();
        let shutdown = shutdown && self.session.shutdown_answer_due().is_none();
        if entries.is_empty() && changes.is_empty() && !shutdown {
            self.session.flush(&mut *self.transport)?;
            return Ok(false);
        }
        if shutdown {
            let due = Instant::now() + self.transport.progress_timeout();
            self.session.await_shutdown(due);
        }
        let changes = changes
            .into_iter()
            .map(|SetChangeEntry { change, completer }| {
                self.sets.await_change(completer);
                change
            });
        let changes = changes.collect();
        let now = Instant::now();
        for entry in &mut entries {
            self.observer.announced(entry, now);
        }
        let submissions = Submissions {
            entries,
            changes,
            shutdown,
        };
        if self.schedule.is_running() {
            if !self.schedule.enter(submissions, self.sets.global()?, now) {
                self.halt_schedule()?;
            }
        } else {
            let announcements = self.sets.announce(submissions);
            self.announce(announcements)?;
        }
        self.session.flush(&mut *self.transport)?;
        Ok(true)
    }

    fn announce(&mut self, announcements: Announcements) -> Result<()> {
        for message in announcements.into_values() {
            self.session.announce(message)?;
        }
        Ok(())
    }

    /// Reads what has arrived.
    fn receive(&mut self) -> Result<()> {
        let schedule = &mut self.schedule;
        self.session.receive(&mut *self.transport, |peer, notice| {
            schedule.receive(peer, notice);
        })
    }

    /// Passes on and carries out what rank 0 has decided, here or elsewhere; true if that was
    /// anything.
    fn follow_response_lists(&mut self) -> Result<bool> {
        let mut any = false;
        self.session.decide();
        loop {
            match self.session.pass_down(&mut *self.transport)? {
                PassDown::Nothing => break,
                PassDown::Passed => {}
                PassDown::Blocked => {
                    self.carry_out_all()?;
                    self.session.insist(&mut *self.transport)?;
                }
            }
            any = true;
        }
        self.carry_out_all()?;
        Ok(any)
    }

    fn carry_out_all(&mut self) -> Result<()> {
        if self.session.has_response_lists() {
            self.observer.timeline.cycle_start();
        }
        while let Some(response_list) = self.session.next_response_list() {
            if let Some(initiator) = self.carry_out(response_list)? {
                self.exit_status = Some(Ok(initiator));
                self.session.drop_response_lists();
            }
        }
        Ok(())
    }

    /// Does what a response list says and returns the rank that shuts the engine
    /// down with it, if one does.
    fn carry_out(&mut self, response_list: ResponseList) -> Result<Option<Rank>> {
        let id = response_list.process_set;
        self.sets
            .member_of(id)?
            .begin(response_list.sequence, &response_list.evicted);
        if let Some(tuned) = response_list.tuned {
            self.executor.tune(tuned);
        }
        if let Some(set) = self.sets.get(id) {
            self.observer.queued(set, &response_list.responses);
        }
        for response in response_list.responses {
            match response {
                Response::Execute(operation) => {
                    self.counters.negotiated_operations.add(1);
                    self.execute(id, &operation)?;
                }
                Response::Refuse { name, reason } => {
                    if let Some(entry) = self.sets.member_of(id)?.refused(&name)? {
                        self.queue.release(id, std::iter::once(&name));
                        self.observer.refused(&entry);
                        entry.complete(Err(Error::Mismatch(reason)));
                    }
                }
                Response::Joined { last } => {
                    let entry = self.sets.member_of(id)?.joined()?;
                    self.queue.release(id, std::iter::once(&entry.request.name));
                    entry.complete(Ok(OperationOutput::numbered(last.number())));
                }
            }
        }
        if let Some(command) = response_list.schedule {
            self.follow_schedule_command(command)?;
        }
        for change in response_list.changes {
            let release = |id, name: &Arc<str>| self.queue.release(id, std::iter::once(name));
            self.sets.apply(change, release);
        }
        Ok(response_list.shutdown)
    }

    fn execute(&mut self, id: ProcessSetId, operation: &Operation) -> Result<()> {
        let team = Arc::clone(&self.sets.member_of(id)?.team);
        self.observed(id, operation, |cycle, tasks| {
            let (transport, timeline) = (&mut *cycle.transport, &cycle.observer.timeline);
            cycle
                .executor
                .execute(transport, &team, operation, tasks, timeline)
        })
    }

    /// Does something with what this rank has for an operation, which begins and ends with it.
    fn observed(
        &mut self,
        id: ProcessSetId,
        operation: &Operation,
        act: impl FnOnce(&mut Self, Vec<Task>) -> Result<()>,
    ) -> Result<()> {
        let tasks = self.sets.member_of(id)?.tasks(operation)?;
        self.queue
            .release(id, tasks.iter().map(|task| &task.spec.name));
        let begun = self.observer.begun(operation, &tasks);
        let result = act(self, tasks);
        self.observer.ended(operation, begun, result.is_ok());
        result
    }

    fn try_sleep(&mut self, limit: Option<Instant>) -> Result<()> {
        let stall_check = self.next_stall_check();
        let schedule_due = self.schedule_due();
        let shutdown_due = self.session.shutdown_answer_due();
        let deadlines = [
            self.session.due(),
            stall_check,
            schedule_due,
            shutdown_due,
            limit,
        ];
        let deadline = deadlines.into_iter().flatten().min();
        let lacks_tensors = self.schedule.lacks_tensors(self.sets.global_has_pending());
        if self.queue.expect(self.schedule.wanted(), lacks_tensors) {
            return Ok(());
        }
        let wake = self.session.wait(&mut *self.transport, deadline)?;
        let now = Instant::now();
        if schedule_due.is_some_and(|due| now >= due) {
            self.halt_schedule()?;
        }
        if stall_check.is_some_and(|check| now >= check) {
            for report in self.session.look_for_stalls(now) {
                self.reporter.take_up(report);
            }
        }
        if let Some(failure) = self.reporter.failure() {
            return Err(Error::PeerLost(failure));
        }
        let expired = shutdown_due.is_some_and(|end| now >= end);
        if wake == Wake::TimedOut && expired {
            return Err(self.transport.stalled(Rank::COORDINATOR).into());
        }
        Ok(())
    }

    /// On rank 0: when to look for stalled tensors next.
    fn next_stall_check(&self) -> Option<Instant> {
        if self.reporter.is_over() {
            return None;
        }
        self.session.next_stall_check()
    }

    /// When tensors that wait for the schedule are to be negotiated instead.
    fn schedule_due(&mut self) -> Option<Instant> {
        let pending = self.sets.global_has_pending();
        let is_blocked = self.schedule.lacks_tensors(pending) && self.queue.has_waiters();
        self.schedule.due(pending, is_blocked, Instant::now)
    }
}
