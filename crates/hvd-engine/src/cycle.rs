//! What is done over and over: drain, negotiate, execute, sleep; and nothing else.
//!
//! One thread at a time runs it (`cycle_owner.rs`), so nothing here needs a lock. A turn that did something
//! is followed by another; a turn that found nothing to do ends in the transport's wait, which a
//! submission, a message or an abort ends. No timer is involved unless a cycle time was asked for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use hvd_transport::{Failure, StatusQuery, Transport, Wake, Waker};
use hvd_types::{ProcessSetId, Rank, Topology};
use hvd_wire::{Operation, ReadyNotice, RequestList, Response, ResponseList, SetChangeResult};

use crate::control::ControlChannel;
use crate::counters::Counters;
use crate::engine::ExitReport;
use crate::execute::team::{Hierarchy, Team};
use crate::execute::{Executor, Task};
use crate::handle::{Completer, OperationOutput};
use crate::local_set::LocalSet;
use crate::negotiate::role::ControlRole;
use crate::observe::Observer;
use crate::process_set::ProcessSets;
use crate::queue::{BoxedEntry, Drained, Queue, SetChangeEntry};
use crate::schedule::progress::ScheduleProgress;
use crate::schedule::ready_barrier::ReadyBarrier;
use crate::stall::reporter::StallReporter;
use crate::{Error, Result};
use scheduled::Held;

mod exchange;
mod scheduled;

/// Everything one rank's engine works with.
pub(crate) struct Cycle {
    transport: Box<dyn Transport>,
    control: ControlChannel,
    queue: Arc<Queue>,
    /// How this rank takes part in the negotiation.
    role: ControlRole,
    /// The process sets this rank is in.
    sets: BTreeMap<ProcessSetId, LocalSet>,
    /// All process sets, as callers see them.
    registry: Arc<ProcessSets>,
    /// The host of every rank.
    topology: Topology,
    /// Who waits for changes of the process sets, in the order in which they were asked for.
    changes: VecDeque<Completer>,
    executor: Executor,
    observer: Observer,
    /// Who finds out about stalled tensors, on rank 0.
    reporter: StallReporter,
    /// Until when the coordinator has to answer a request for shutdown.
    shutdown_answer_due: Option<Instant>,
    /// Response lists that have arrived and were not yet passed on.
    heard: VecDeque<ResponseList>,
    /// Response lists that were passed on and not yet carried out.
    response_lists: VecDeque<ResponseList>,
    /// The schedule that runs.
    progress: Option<ScheduleProgress>,
    ready_barrier: ReadyBarrier,
    /// What this rank last called out.
    notice: ReadyNotice,
    /// What waits for the end of the schedule.
    held: Held,
    /// Since when somebody has waited for an operation that the schedule lacks tensors for.
    lacking_since: Option<Instant>,
    /// When the last entry came into the schedule that nobody will say it waits for.
    callback_since: Option<Instant>,
    counters: Arc<Counters>,
    /// How it ended, once it has: the rank that asked for the end, or what went wrong.
    exit_status: Option<Result<Rank>>,
}

/// What a turn of the cycle found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Busy,
    Idle,
}

impl Turn {
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
        let me = transport.rank();
        let ready_barrier = ReadyBarrier::new(me, transport.size());
        let neighbours = role.place().neighbours();
        let peers: BTreeSet<Rank> = neighbours
            .chain(ready_barrier.partners().iter().copied())
            .collect();
        let global = registry.members(ProcessSetId::GLOBAL).map(|members| {
            let id = ProcessSetId::GLOBAL;
            (id, LocalSet::new(id, Team::new(members, &topology)))
        });
        Self {
            control: ControlChannel::new(peers.into_iter()),
            executor: Executor::new(hierarchy),
            observer,
            reporter: StallReporter::new(None, transport.waker()),
            transport,
            queue,
            role,
            sets: global.into_iter().collect(),
            registry,
            topology,
            changes: VecDeque::new(),
            shutdown_answer_due: None,
            heard: VecDeque::new(),
            response_lists: VecDeque::new(),
            progress: None,
            ready_barrier,
            notice: ReadyNotice {
                schedule: 0,
                operation: 0,
                tensors: Vec::new(),
            },
            held: Held::default(),
            lacking_since: None,
            callback_since: None,
            counters,
            exit_status: None,
        }
    }

    /// What it counts.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Has the ranks that are missed asked how they stand.
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

    /// Whether somebody waits who has nothing else to do.
    pub(crate) fn set_eager(&mut self, eager: bool) {
        self.transport.set_eager(eager);
    }

    /// Whether the engine was shut down or cannot go on.
    pub(crate) fn is_over(&self) -> bool {
        self.exit_status.is_some()
    }

    /// Whether something is under way that this rank will have to go on with.
    pub(crate) fn is_engaged(&self) -> bool {
        let pending = self.sets.values().any(LocalSet::has_pending);
        pending || !self.changes.is_empty() || !self.held.entries.is_empty()
    }

    /// Ends the engine, which is over. Nothing is left pending.
    pub(crate) fn end(self, on_exit: impl FnOnce(ExitReport, Box<dyn Transport>)) {
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
        let pending = self.sets.into_values().flat_map(LocalSet::into_pending);
        for entry in pending.chain(self.held.entries).chain(unseen) {
            entry.complete(Err(reason.clone()));
        }
        for change in self.changes {
            change.complete(Err(reason.clone()));
        }
        on_exit(end, self.transport);
    }

    /// How an agreed end looks from here: expected if this rank asked for it too.
    fn shut_down_by(&self, initiator: Rank) -> (Error, ExitReport) {
        if self.shutdown_answer_due.is_some() {
            return (Error::ShutDown, ExitReport::Agreed);
        }
        let host = self.transport.host_of(initiator).to_owned();
        let error = Error::ShutDownBy {
            rank: initiator,
            host,
        };
        (error, ExitReport::ShutDownBy(initiator))
    }

    /// Whom to blame: the peer that is gone, or this rank itself if it cannot go on.
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
    pub(crate) fn turn(&mut self) -> Turn {
        self.guarded(Self::try_turn).unwrap_or(Turn::Busy)
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
        // A panic is a bug of ours, and all the more a reason to tell the other ranks: without a
        // word they would wait for this one for ever.
        let result = catch_unwind(AssertUnwindSafe(|| act(self)));
        let result = result.unwrap_or_else(|_| {
            let text = "the engine panicked; the message is above";
            Err(Error::Internal(text.to_owned()))
        });
        result
            .map_err(|error| self.exit_status = Some(Err(error)))
            .ok()
    }

    fn try_turn(&mut self) -> Result<Turn> {
        let announced = self.announce()?;
        self.listen()?;
        self.pass_up()?;
        let mut busy = self.follow_response_lists()? || announced;
        if self.is_over() {
            return Ok(Turn::Busy);
        }
        busy |= self.follow_schedule()?;
        self.pass_up()?;
        Ok(if busy { Turn::Busy } else { Turn::Idle })
    }

    /// Takes in what was submitted here since the last turn, and tells the coordinator unless it
    /// is part of a schedule.
    fn announce(&mut self) -> Result<bool> {
        let Drained {
            entries,
            changes,
            shutdown,
        } = self.queue.drain();
        let asks_for_shutdown = shutdown && self.shutdown_answer_due.is_none();
        if entries.is_empty() && changes.is_empty() && !asks_for_shutdown {
            self.control.flush(&mut *self.transport)?;
            return Ok(false);
        }
        if asks_for_shutdown {
            self.shutdown_answer_due = Some(Instant::now() + self.transport.progress_timeout());
            self.held.shutdown = true;
        }
        for SetChangeEntry { change, completer } in changes {
            self.held.changes.push(change);
            self.changes.push_back(completer);
        }
        let now = Instant::now();
        if self.progress.is_some() {
            self.enter(entries, now)?;
        } else {
            let messages = self.take_in(entries, now);
            self.tell_all(messages)?;
        }
        self.control.flush(&mut *self.transport)?;
        Ok(true)
    }

    /// Sorts entries into their process sets and returns what there is to announce for each.
    fn take_in(
        &mut self,
        entries: Vec<BoxedEntry>,
        now: Instant,
    ) -> BTreeMap<ProcessSetId, RequestList> {
        let mut messages = BTreeMap::new();
        for mut entry in entries {
            self.observer.announced(&mut entry, now);
            self.sort_in(entry, &mut messages);
        }
        messages
    }

    fn sort_in(&mut self, entry: BoxedEntry, messages: &mut BTreeMap<ProcessSetId, RequestList>) {
        let id = entry.process_set;
        match self.sets.get_mut(&id) {
            Some(set) => {
                let message = messages.entry(id).or_insert_with(|| set.announcement());
                set.announce(entry, message);
            }
            // Removed between the caller's check and now.
            None => entry.complete(Err(Error::Removed(id))),
        }
    }

    /// Tells the coordinator what there is to announce, and what was held back.
    fn tell_all(&mut self, mut messages: BTreeMap<ProcessSetId, RequestList>) -> Result<()> {
        let changes = std::mem::take(&mut self.held.changes);
        let shutdown = std::mem::take(&mut self.held.shutdown);
        if shutdown || !changes.is_empty() {
            let global = self.message(&mut messages, ProcessSetId::GLOBAL);
            global.shutdown = shutdown;
            global.changes = changes;
        }
        for message in messages.into_values() {
            self.tell(message)?;
        }
        Ok(())
    }

    fn message<'a>(
        &self,
        messages: &'a mut BTreeMap<ProcessSetId, RequestList>,
        id: ProcessSetId,
    ) -> &'a mut RequestList {
        messages.entry(id).or_insert_with(|| {
            self.sets
                .get(&id)
                .map_or_else(RequestList::default, LocalSet::announcement)
        })
    }

    /// Does what a response list says and returns who wants the engine to end with it, if anybody.
    fn carry_out(&mut self, response_list: ResponseList) -> Result<Option<Rank>> {
        let id = response_list.process_set;
        self.set(id)?
            .begin(response_list.sequence, &response_list.evicted);
        if let Some(tuned) = response_list.tuned {
            self.executor.tune(tuned);
        }
        if let Some(set) = self.sets.get(&id) {
            self.observer.queued(set, &response_list.responses);
        }
        for response in response_list.responses {
            match response {
                Response::Execute(operation) => {
                    self.counters.negotiated_operations.add(1);
                    self.execute(id, &operation)?;
                }
                Response::Refuse { name, reason } => {
                    if let Some(entry) = self.set(id)?.refused(&name)? {
                        self.queue.release(id, std::iter::once(&name));
                        self.observer.refused(&entry);
                        entry.complete(Err(Error::Mismatch(reason)));
                    }
                }
                Response::Joined { last } => {
                    let entry = self.set(id)?.joined()?;
                    self.queue.release(id, std::iter::once(&entry.request.name));
                    entry.complete(Ok(numbered(last.number())));
                }
            }
        }
        if let Some(command) = response_list.schedule {
            self.follow_command(command)?;
        }
        for change in response_list.changes {
            self.change_sets(change);
        }
        Ok(response_list.shutdown)
    }

    fn execute(&mut self, id: ProcessSetId, operation: &Operation) -> Result<()> {
        let team = Arc::clone(&self.set(id)?.team);
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
        let tasks = self.set(id)?.tasks(operation)?;
        self.queue
            .release(id, tasks.iter().map(|task| &task.spec.name));
        let begun = self.observer.begun(operation, &tasks);
        let result = act(self, tasks);
        self.observer.ended(operation, begun, result.is_ok());
        result
    }

    fn set(&mut self, id: ProcessSetId) -> Result<&mut LocalSet> {
        let stranger = || {
            Error::Internal(format!(
                "got a response list for process set {id}, of which this rank is no member"
            ))
        };
        self.sets.get_mut(&id).ok_or_else(stranger)
    }

    /// Follows a change of the process sets and tells the caller who asked for it.
    fn change_sets(&mut self, change: SetChangeResult) {
        let result = match change {
            SetChangeResult::Added { id, ranks } => {
                let members: Arc<[Rank]> = ranks.into();
                if members.contains(&self.transport.rank()) {
                    let team = Team::new(Arc::clone(&members), &self.topology);
                    self.sets.insert(id, LocalSet::new(id, team));
                }
                self.registry.insert(id, members);
                Ok(numbered(id.number()))
            }
            SetChangeResult::Removed(id) => {
                self.registry.remove(id);
                self.abandon(id);
                Ok(numbered(id.number()))
            }
            SetChangeResult::Refused(reason) => Err(Error::ProcessSet(reason)),
        };
        if let Some(completer) = self.changes.pop_front() {
            completer.complete(result);
        }
    }

    /// Fails everything that was pending in a process set that is no more.
    fn abandon(&mut self, id: ProcessSetId) {
        for entry in self
            .sets
            .remove(&id)
            .into_iter()
            .flat_map(LocalSet::into_pending)
        {
            self.queue.release(id, std::iter::once(&entry.request.name));
            entry.complete(Err(Error::Removed(id)));
        }
    }

    fn try_sleep(&mut self, limit: Option<Instant>) -> Result<()> {
        let due = self.role.due();
        let stall_check = self.next_stall_check();
        let schedule_due = self.schedule_due();
        let deadlines = [
            due,
            stall_check,
            schedule_due,
            self.shutdown_answer_due,
            limit,
        ];
        let deadline = deadlines.into_iter().flatten().min();
        if self.queue.expect(self.wanted(), self.lacks_tensors()) {
            return Ok(());
        }
        let wake = self.control.wait(&mut *self.transport, deadline)?;
        let now = Instant::now();
        if schedule_due.is_some_and(|due| now >= due) {
            self.halt()?;
        }
        if stall_check.is_some_and(|check| now >= check) {
            self.look_for_stalls(now);
        }
        if let Some(failure) = self.reporter.failure() {
            return Err(Error::PeerLost(failure));
        }
        let expired = self.shutdown_answer_due.is_some_and(|end| now >= end);
        if wake == Wake::TimedOut && expired {
            return Err(self.transport.stalled(Rank::COORDINATOR).into());
        }
        Ok(())
    }

    fn next_stall_check(&self) -> Option<Instant> {
        let hub = self.role.hub().filter(|_| !self.reporter.is_over())?;
        hub.next_stall_check()
    }

    /// On rank 0: has it found out and told why tensors wait for some ranks for too long.
    fn look_for_stalls(&mut self, now: Instant) {
        for report in self.role.look_for_stalls(now) {
            self.reporter.take_up(report);
        }
    }
}

fn numbered(number: u32) -> OperationOutput {
    OperationOutput {
        number: Some(number),
        ..OperationOutput::default()
    }
}
