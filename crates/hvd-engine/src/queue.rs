//! What this rank has submitted: the queue between callers' threads and the engine thread.
//!
//! One short lock guards the names in flight and the entries not yet drained; a caller holds it for
//! a look-up and a push. A submission says whether the engine has to be woken: once per drained
//! queue, by the first submission after a drain; or, while a schedule waits for certain tensors, by
//! as many as it waits for. A caller that waits for an operation wakes it in any case.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hvd_types::ProcessSetId;
use hvd_wire::{Request, SetChange};

use crate::handle::{Completer, OperationOutput};
use crate::hash::FastSet;
use crate::recorder::OperationNumber;
use crate::submit::Submission;
use crate::tensor::{TensorSource, TensorTarget};
use crate::{Error, Result};

/// One operation on its way through this rank.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    pub(crate) process_set: ProcessSetId,
    pub(crate) request: Request,
    pub(crate) source: TensorSource,
    pub(crate) target: TensorTarget,
    /// Rows for each rank, for an alltoall.
    pub(crate) splits: Vec<u64>,
    pub(crate) submitted: Instant,
    /// Its number in the flight recorder.
    pub(crate) number: Option<OperationNumber>,
    completer: Completer,
}

/// An entry is moved many times, so it stays where it was allocated.
pub(crate) type BoxedEntry = Box<QueueEntry>;

impl QueueEntry {
    /// Whether the operation is completed by callback.
    pub(crate) fn has_callback(&self) -> bool {
        self.completer.has_callback()
    }

    pub(crate) fn new(
        request: Request,
        submission: Submission,
        completer: Completer,
    ) -> BoxedEntry {
        let Submission {
            process_set,
            source,
            target,
            splits,
            ..
        } = submission;
        Box::new(Self {
            process_set,
            request,
            source,
            target,
            splits,
            submitted: Instant::now(),
            number: None,
            completer,
        })
    }

    /// Takes the entry apart for execution.
    pub(crate) fn into_parts(self: Box<Self>) -> (TensorSource, TensorTarget, Vec<u64>, Completer) {
        (self.source, self.target, self.splits, self.completer)
    }

    /// Ends the operation without executing it.
    pub(crate) fn complete(self: Box<Self>, result: Result<OperationOutput>) {
        // The borrowed memory goes first: nothing may touch it once the caller knows.
        let (source, target, _, completer) = self.into_parts();
        drop((source, target));
        completer.complete(result);
    }
}

/// A change of the process sets on its way through this rank.
#[derive(Debug)]
pub(crate) struct SetChangeEntry {
    pub(crate) change: SetChange,
    pub(crate) completer: Completer,
}

/// What the engine thread finds when it looks.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub(crate) entries: Vec<BoxedEntry>,
    pub(crate) changes: Vec<SetChangeEntry>,
    pub(crate) shutdown: bool,
}

/// Operations that are submitted together: one, or a group.
pub(crate) trait Batch: AsRef<[BoxedEntry]> + IntoIterator<Item = BoxedEntry> {}

impl<T: AsRef<[BoxedEntry]> + IntoIterator<Item = BoxedEntry>> Batch for T {}

/// Submissions of this rank.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
}

/// Whether the engine has to be woken for what was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum WakeRequest {
    Needed,
    /// It has been woken since it looked last.
    AlreadyMade,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Names in flight, by process set.
    names: FastSet<(ProcessSetId, Arc<str>)>,
    fresh: Vec<BoxedEntry>,
    changes: Vec<SetChangeEntry>,
    shutdown: bool,
    /// Whether the engine has been woken since its last look.
    wake_requested: bool,
    /// How many entries have to be there before the engine is woken.
    quota: usize,
    /// Whether a schedule waits for more entries, so that it has to know if a caller waits that
    /// might have submitted them.
    lacks: bool,
    /// Callers that wait for an operation.
    waiters: usize,
    /// Why nothing is accepted any more.
    closed: Option<Error>,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
        }
    }

    /// Accepts operations, all or none of them, or says why not. Nothing is left behind by a
    /// refusal. The engine is not woken for it: the caller that waits does that.
    pub(crate) fn push_quietly(&self, entries: impl Batch) -> Result<()> {
        self.accept(entries).map(drop)
    }

    fn accept(&self, entries: impl Batch) -> Result<MutexGuard<'_, QueueState>> {
        let mut state = self.lock();
        if let Err(error) = state.reserve(entries.as_ref()) {
            drop(state);
            for entry in entries {
                entry.complete(Err(error.clone()));
            }
            return Err(error);
        }
        state.fresh.extend(entries);
        Ok(state)
    }

    /// As [`Queue::push_quietly`], for an engine that is to begin at once.
    pub(crate) fn push(&self, entries: impl Batch) -> Result<WakeRequest> {
        let mut state = self.accept(entries)?;
        Ok(if state.fresh.len() < state.quota {
            WakeRequest::AlreadyMade
        } else {
            state.call()
        })
    }

    /// As [`Queue::push`], for operations completed by callback: even a schedule that waits for
    /// more of them has to know that these are there.
    pub(crate) fn push_with_callback(&self, entries: impl Batch) -> Result<WakeRequest> {
        Ok(self.accept(entries)?.call())
    }

    /// Says how many submissions can pass before the engine has anything to do, and whether a
    /// schedule lacks them while other entries wait. True if there are so many already, and it was
    /// not woken.
    pub(crate) fn expect(&self, quota: usize, lacks: bool) -> bool {
        let mut state = self.lock();
        state.quota = quota;
        state.lacks = lacks;
        state.fresh.len() >= quota && !state.wake_requested
    }

    /// Whether a caller waits for an operation.
    pub(crate) fn has_waiters(&self) -> bool {
        self.lock().waiters > 0
    }

    /// Counts a caller that waits, until the guard is dropped.
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        self.lock().waiters += 1;
        Waiter(self)
    }

    /// Whether something was submitted that was not drained yet.
    pub(crate) fn has_unseen(&self) -> bool {
        !self.lock().fresh.is_empty()
    }

    /// For a caller that waits: whether the engine has to look at what was submitted, or to learn
    /// that the caller waits.
    pub(crate) fn call(&self) -> WakeRequest {
        let mut state = self.lock();
        if state.fresh.is_empty() && !state.lacks {
            return WakeRequest::AlreadyMade;
        }
        state.call()
    }

    /// Accepts a change of the process sets.
    pub(crate) fn push_change(&self, change: SetChangeEntry) -> Result<WakeRequest> {
        let mut state = self.lock();
        if let Some(error) = state.closed.clone() {
            return Err(error);
        }
        state.changes.push(change);
        Ok(state.call())
    }

    /// Asks for the end of the engine on all ranks, at its next look.
    pub(crate) fn request_shutdown(&self) {
        self.lock().shutdown = true;
    }

    /// Everything submitted since the last look.
    pub(crate) fn drain(&self) -> Drained {
        let mut state = self.lock();
        state.wake_requested = false;
        Drained {
            entries: std::mem::take(&mut state.fresh),
            changes: std::mem::take(&mut state.changes),
            shutdown: state.shutdown,
        }
    }

    /// Frees the names of operations that begin to execute.
    pub(crate) fn release<'a>(
        &self,
        process_set: ProcessSetId,
        names: impl Iterator<Item = &'a Arc<str>>,
    ) {
        let mut state = self.lock();
        for name in names {
            state.names.remove(&(process_set, Arc::clone(name)));
        }
    }

    /// Accepts nothing any more and returns what was never looked at.
    pub(crate) fn close(&self, reason: Error) -> Vec<BoxedEntry> {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        state.names.clear();
        // Changes complete by being dropped.
        state.changes.clear();
        std::mem::take(&mut state.fresh)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for an operation.
#[derive(Debug)]
pub(crate) struct Waiter<'a>(&'a Queue);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.lock().waiters -= 1;
    }
}

impl QueueState {
    fn call(&mut self) -> WakeRequest {
        if std::mem::replace(&mut self.wake_requested, true) {
            WakeRequest::AlreadyMade
        } else {
            WakeRequest::Needed
        }
    }

    /// Takes the names of entries, all or none of them. Names must also differ among themselves.
    fn reserve(&mut self, entries: &[BoxedEntry]) -> Result<()> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        for (index, entry) in entries.iter().enumerate() {
            if !self.names.insert(key(entry)) {
                for taken in &entries[..index] {
                    self.names.remove(&key(taken));
                }
                let name = Arc::clone(&entry.request.name);
                return Err(Error::DuplicateName { name });
            }
        }
        Ok(())
    }
}

fn key(entry: &QueueEntry) -> (ProcessSetId, Arc<str>) {
    (entry.process_set, Arc::clone(&entry.request.name))
}
