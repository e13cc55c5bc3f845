//! The engine thread: drain, negotiate, execute, sleep; and nothing else.
//!
//! It alone owns the negotiation's state, so nothing here needs a lock. A turn that did something
//! is followed by another; a turn that found nothing to do ends in the transport's wait, which a
//! submission, a message or an abort ends. No timer is involved unless a cycle time was asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use hvd_transport::{Failure, Transport, Wake};
use hvd_types::Rank;
use hvd_wire::{Member, Operation, Ready, Response, Verdict};

use crate::control::ControlChannel;
use crate::engine::Farewell;
use crate::execute::{Executor, Task};
use crate::negotiate::coordinator::Coordinator;
use crate::negotiate::known::KnownTensors;
use crate::queue::{Drained, Entry, Queue};
use crate::{Error, Result};

/// Everything one rank's engine thread works with.
pub(crate) struct Cycle {
    transport: Box<dyn Transport>,
    control: ControlChannel,
    queue: Arc<Queue>,
    /// On rank 0 only.
    coordinator: Option<Coordinator>,
    known: KnownTensors,
    /// Submitted, announced, and not yet executed.
    pending: HashMap<Arc<str>, Entry>,
    executor: Executor,
    /// The last verdict that was carried out.
    seen: u64,
    /// Until when the coordinator has to answer a request for shutdown.
    shutdown_answer_due: Option<Instant>,
}

/// What a turn of the cycle found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Busy,
    Idle,
    /// The engine ends because this rank asked for it.
    Over(Rank),
}

impl Cycle {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        queue: Arc<Queue>,
        coordinator: Option<Coordinator>,
    ) -> Self {
        let size = transport.size();
        let me = transport.rank();
        let peers = (0..size)
            .map(Rank::from_index)
            .filter(|&peer| peer != me && (me == Rank::COORDINATOR || peer == Rank::COORDINATOR));
        Self {
            control: ControlChannel::new(peers),
            executor: Executor::new(size),
            transport,
            queue,
            coordinator,
            known: KnownTensors::default(),
            pending: HashMap::new(),
            seen: 0,
            shutdown_answer_due: None,
        }
    }

    /// Runs until the engine is shut down or cannot go on. Either way nothing is left pending.
    pub(crate) fn run(mut self, farewell: impl FnOnce(Farewell, Box<dyn Transport>)) {
        let (reason, end) = match self.turn_until_over() {
            Ok(initiator) => self.shut_down_by(initiator),
            Err(error) => {
                let culprit = self.culprit(&error);
                (error, Farewell::Failed(culprit))
            }
        };
        let unseen = self.queue.close(reason.clone());
        for entry in self.pending.into_values().chain(unseen) {
            entry.complete(Err(reason.clone()));
        }
        farewell(end, self.transport);
    }

    /// How an agreed end looks from here: expected if this rank asked for it too.
    fn shut_down_by(&self, initiator: Rank) -> (Error, Farewell) {
        if self.shutdown_answer_due.is_some() {
            return (Error::ShutDown, Farewell::Agreed);
        }
        let host = self.transport.host_of(initiator).to_owned();
        let error = Error::ShutDownBy {
            rank: initiator,
            host,
        };
        (error, Farewell::ShutDownBy(initiator))
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

    /// Returns the rank that asked for the end.
    fn turn_until_over(&mut self) -> Result<Rank> {
        loop {
            match self.turn()? {
                Turn::Over(initiator) => return Ok(initiator),
                Turn::Busy => {}
                Turn::Idle => self.sleep()?,
            }
        }
    }

    fn turn(&mut self) -> Result<Turn> {
        let announced = self.announce()?;
        let mut verdicts = self.listen()?;
        verdicts.extend(self.decide()?);
        let turn = if announced || !verdicts.is_empty() {
            Turn::Busy
        } else {
            Turn::Idle
        };
        for verdict in verdicts {
            if let Some(initiator) = self.carry_out(verdict)? {
                return Ok(Turn::Over(initiator));
            }
        }
        Ok(turn)
    }

    /// Tells the coordinator what was submitted here since the last turn.
    fn announce(&mut self) -> Result<bool> {
        let Drained { entries, shutdown } = self.queue.drain();
        let asks_for_shutdown = shutdown && self.shutdown_answer_due.is_none();
        if entries.is_empty() && !asks_for_shutdown {
            self.control.flush(&mut *self.transport)?;
            return Ok(false);
        }
        if asks_for_shutdown {
            self.shutdown_answer_due = Some(Instant::now() + self.transport.patience());
        }
        let mut message = Ready {
            seen: self.seen,
            shutdown,
            ..Ready::default()
        };
        for entry in entries {
            match self.known.number_of(&entry.request) {
                Some(id) => message.cached.push(id),
                None => message.requests.push(entry.request.clone()),
            }
            self.pending.insert(Arc::clone(&entry.request.name), entry);
        }
        if let Some(coordinator) = &mut self.coordinator {
            hear(coordinator, &*self.transport, Rank::COORDINATOR, message)?;
        } else {
            self.control.post(|out| message.encode(out))?;
            self.control.flush(&mut *self.transport)?;
        }
        Ok(true)
    }

    /// Reads what has arrived: the coordinator takes in what others announce, others get verdicts.
    fn listen(&mut self) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        let mut announcements = Vec::new();
        let coordinates = self.coordinator.is_some();
        self.control.receive(&mut *self.transport, |peer, bytes| {
            if coordinates {
                announcements.push((peer, Ready::decode(bytes).map_err(garbled(peer))?));
            } else {
                verdicts.push(Verdict::decode(bytes).map_err(garbled(peer))?);
            }
            Ok(())
        })?;
        if let Some(coordinator) = &mut self.coordinator {
            for (peer, message) in announcements {
                hear(coordinator, &*self.transport, peer, message)?;
            }
        }
        Ok(verdicts)
    }

    /// On rank 0: the next verdict, after every other rank has been sent it.
    fn decide(&mut self) -> Result<Option<Verdict>> {
        let Some(coordinator) = &mut self.coordinator else {
            return Ok(None);
        };
        let Some(verdict) = coordinator.decide(Instant::now()) else {
            return Ok(None);
        };
        self.control.post(|out| verdict.encode(out))?;
        self.control.flush_all(&mut *self.transport)?;
        Ok(Some(verdict))
    }

    /// Does what a verdict says and returns who wants the engine to end with it, if anybody.
    fn carry_out(&mut self, verdict: Verdict) -> Result<Option<Rank>> {
        for id in verdict.evicted {
            self.known.forget(id);
        }
        for response in verdict.responses {
            match response {
                Response::Execute(operation) => self.execute(&operation)?,
                Response::Refuse { name, reason } => {
                    let entry = self.take(&name)?;
                    self.queue.release(std::iter::once(&name));
                    entry.complete(Err(Error::Mismatch(reason)));
                }
            }
        }
        self.seen = verdict.sequence;
        Ok(verdict.shutdown)
    }

    fn execute(&mut self, operation: &Operation) -> Result<()> {
        let mut tasks = Vec::with_capacity(operation.members.len());
        for member in &operation.members {
            tasks.push(self.task(member)?);
        }
        self.queue.release(tasks.iter().map(|task| &task.plan.name));
        self.executor
            .execute(&mut *self.transport, operation, tasks)
    }

    /// What this rank submitted for one member of an operation.
    fn task(&mut self, member: &Member) -> Result<Task> {
        match member {
            Member::Known(id) => {
                let unknown = || Error::Internal(format!("unknown cache number {}", id.0));
                let plan = self.known.plan(*id).ok_or_else(unknown)?;
                let entry = self.take(&plan.name)?;
                Ok(Task { plan, entry })
            }
            Member::New(plan) => {
                let entry = self.take(&plan.name)?;
                let plan = Arc::new(plan.clone());
                if let Some(id) = plan.cache {
                    self.known
                        .remember(id, Arc::clone(&plan), entry.request.clone());
                }
                Ok(Task { plan, entry })
            }
        }
    }

    fn take(&mut self, name: &Arc<str>) -> Result<Entry> {
        let missing = || Error::Internal(format!("a verdict names tensor `{name}`, not asked for"));
        self.pending.remove(name).ok_or_else(missing)
    }

    /// Waits until there may be something to do.
    fn sleep(&mut self) -> Result<()> {
        let due = self.coordinator.as_ref().and_then(Coordinator::due);
        let deadline = [due, self.shutdown_answer_due].into_iter().flatten().min();
        let wake = self.control.wait(&mut *self.transport, deadline)?;
        let expired = self
            .shutdown_answer_due
            .is_some_and(|end| Instant::now() >= end);
        if wake == Wake::TimedOut && expired {
            return Err(self.transport.stalled(Rank::COORDINATOR).into());
        }
        Ok(())
    }
}

fn hear(
    coordinator: &mut Coordinator,
    transport: &dyn Transport,
    rank: Rank,
    message: Ready,
) -> Result<()> {
    coordinator.hear(rank, message).map_err(|broken| {
        let host = transport.host_of(rank);
        Error::Internal(format!("rank {rank} on host `{host}` {broken}"))
    })
}

fn garbled(peer: Rank) -> impl FnOnce(hvd_wire::Error) -> Error {
    move |error| Error::Internal(format!("rank {peer} sent a bad message: {error}"))
}
