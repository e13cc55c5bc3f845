//! What this rank has submitted: the door between callers' threads and the engine thread.
//!
//! One short lock guards the names in flight and the entries not yet drained; a caller holds it
//! for a look-up and a push. The engine thread is woken once per drained queue: the first
//! submission after a drain wakes it, later ones find that a wake is already under way.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hvd_transport::Waker;
use hvd_wire::Request;

use crate::handle::{Completer, Outcome};
use crate::tensor::{Source, Target};
use crate::{Error, Result};

/// One operation on its way through this rank.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) request: Request,
    pub(crate) source: Source,
    pub(crate) target: Target,
    /// Rows for each rank, for an alltoall.
    pub(crate) splits: Vec<u64>,
    completer: Completer,
}

impl Entry {
    pub(crate) fn new(
        request: Request,
        source: Source,
        target: Target,
        splits: Vec<u64>,
        completer: Completer,
    ) -> Self {
        Self {
            request,
            source,
            target,
            splits,
            completer,
        }
    }

    /// Takes the entry apart for execution.
    pub(crate) fn into_parts(self) -> (Request, Source, Target, Vec<u64>, Completer) {
        (
            self.request,
            self.source,
            self.target,
            self.splits,
            self.completer,
        )
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

/// What the engine thread finds when it looks.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub(crate) entries: Vec<Entry>,
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
    names: HashSet<Arc<str>>,
    fresh: Vec<Entry>,
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

    /// Accepts an operation, or says why not. Nothing is left behind by a refusal.
    pub(crate) fn push(&self, entry: Entry) -> Result<()> {
        let mut state = self.lock();
        let refusal = state.closed.clone().or_else(|| {
            let name = &entry.request.name;
            state.names.contains(name).then(|| Error::DuplicateName {
                name: Arc::clone(name),
            })
        });
        if let Some(error) = refusal {
            drop(state);
            entry.complete(Err(error.clone()));
            return Err(error);
        }
        state.names.insert(Arc::clone(&entry.request.name));
        state.fresh.push(entry);
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
            shutdown: state.shutdown,
        }
    }

    /// Frees the names of operations that begin to execute.
    pub(crate) fn release<'a>(&self, names: impl Iterator<Item = &'a Arc<str>>) {
        let mut state = self.lock();
        for name in names {
            state.names.remove(name);
        }
    }

    /// Accepts nothing any more and returns what was never looked at.
    pub(crate) fn close(&self, reason: Error) -> Vec<Entry> {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        state.names.clear();
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
