//! What this rank has submitted: the door between callers' threads and the engine thread.
//!
//! One short lock guards the names in flight and the entries not yet drained; a caller holds it
//! for a look-up and a push. The engine thread is woken once per drained queue: the first
//! submission after a drain wakes it, later ones find that a wake is already under way.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hvd_transport::Waker;
use hvd_types::ProcessSetId;
use hvd_wire::{Request, SetChange};

use crate::handle::{Completer, Outcome};
use crate::recorder::OperationNumber;
use crate::submit::Submission;
use crate::tensor::{Source, Target};
use crate::{Error, Result};

/// One operation on its way through this rank.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) process_set: ProcessSetId,
    pub(crate) request: Request,
    pub(crate) source: Source,
    pub(crate) target: Target,
    /// Rows for each rank, for an alltoall.
    pub(crate) splits: Vec<u64>,
    pub(crate) submitted: Instant,
    /// Its number in the flight recorder.
    pub(crate) number: Option<OperationNumber>,
    completer: Completer,
}

impl Entry {
    pub(crate) fn new(request: Request, submission: Submission, completer: Completer) -> Self {
        let Submission {
            process_set,
            source,
            target,
            splits,
            ..
        } = submission;
        Self {
            process_set,
            request,
            source,
            target,
            splits,
            submitted: Instant::now(),
            number: None,
            completer,
        }
    }

    /// Takes the entry apart for execution.
    pub(crate) fn into_parts(self) -> (Source, Target, Vec<u64>, Completer) {
        (self.source, self.target, self.splits, self.completer)
    }

    /// Ends the operation without executing it.
    pub(crate) fn complete(self, result: Result<Outcome>) {
        // The borrowed memory goes first: nothing may touch it once the caller knows.
        let Self {
            source,
            target,
            completer,
            ..
        } = self;
        drop((source, target));
        completer.complete(result);
    }
}

/// A change of the process sets on its way through this rank.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) change: SetChange,
    pub(crate) completer: Completer,
}

/// What the engine thread finds when it looks.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub(crate) entries: Vec<Entry>,
    pub(crate) changes: Vec<Change>,
    pub(crate) shutdown: bool,
}

/// Submissions of this rank.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    /// Names in flight, by process set.
    names: HashSet<(ProcessSetId, Arc<str>)>,
    fresh: Vec<Entry>,
    changes: Vec<Change>,
    shutdown: bool,
    /// Whether the engine thread has been woken since its last look.
    woken: bool,
    /// Why nothing is accepted any more.
    closed: Option<Error>,
}

impl Queue {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            state: Mutex::default(),
            waker,
        }
    }

    /// Accepts operations, all or none of them, or says why not. Nothing is left behind by a
    /// refusal.
    pub(crate) fn push(&self, entries: Vec<Entry>) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = state.refusal(&entries) {
            drop(state);
            for entry in entries {
                entry.complete(Err(error.clone()));
            }
            return Err(error);
        }
        state.names.extend(entries.iter().map(key));
        state.fresh.extend(entries);
        self.wake(state);
        Ok(())
    }

    /// Accepts a change of the process sets.
    pub(crate) fn push_change(&self, change: Change) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = state.closed.clone() {
            return Err(error);
        }
        state.changes.push(change);
        self.wake(state);
        Ok(())
    }

    /// Asks the engine thread to end the engine on all ranks.
    pub(crate) fn request_shutdown(&self) {
        let mut state = self.lock();
        state.shutdown = true;
        self.wake(state);
    }

    /// Everything submitted since the last look.
    pub(crate) fn drain(&self) -> Drained {
        let mut state = self.lock();
        state.woken = false;
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
    pub(crate) fn close(&self, reason: Error) -> Vec<Entry> {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        state.names.clear();
        // Changes tell their callers by being dropped.
        state.changes.clear();
        std::mem::take(&mut state.fresh)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let first = !std::mem::replace(&mut state.woken, true);
        drop(state);
        if first {
            self.waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why entries cannot be accepted, if they cannot. Names must also differ among themselves.
    fn refusal(&self, entries: &[Entry]) -> Option<Error> {
        if let Some(error) = &self.closed {
            return Some(error.clone());
        }
        let mut new = HashSet::new();
        let taken = entries.iter().find(|entry| {
            let key = key(entry);
            self.names.contains(&key) || !new.insert(key)
        })?;
        let name = Arc::clone(&taken.request.name);
        Some(Error::DuplicateName { name })
    }
}

fn key(entry: &Entry) -> (ProcessSetId, Arc<str>) {
    (entry.process_set, Arc::clone(&entry.request.name))
}
