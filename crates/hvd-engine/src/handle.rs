//! The exit: a caller's ticket for one operation.
//!
//! The engine thread completes it once; the caller polls it or sleeps on it. Neither ever holds
//! the other up: completion takes a lock that is held for a move only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hvd_types::Shape;

use crate::tensor::Buffer;
use crate::{Error, Result};

/// The number of an operation, counted from 1 in each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// What a completed operation gives back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The result, if the engine allocated it.
    pub output: Option<Buffer>,
    /// Shape of the result.
    pub shape: Shape,
    /// Rows received from each rank, after an alltoall.
    pub received_splits: Vec<u64>,
    /// The rank that joined last, after a join; the number of the set, after adding one.
    pub number: Option<u32>,
}

/// The shared state of one operation's end.
#[derive(Debug, Default)]
pub struct Completion {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Pending,
    Done(Result<Outcome>),
    Taken,
}

impl Completion {
    /// Ends the operation and wakes its waiters. Only the first call counts.
    pub(crate) fn complete(&self, result: Result<Outcome>) {
        let mut state = self.lock();
        if matches!(*state, State::Pending) {
            *state = State::Done(result);
            drop(state);
            self.done.notify_all();
        }
    }

    /// Whether the operation has ended.
    pub fn is_done(&self) -> bool {
        !matches!(*self.lock(), State::Pending)
    }

    /// Waits up to `limit` and takes the result; `None` if it has not ended by then. Whoever comes
    /// second gets an empty outcome.
    pub fn wait(&self, limit: Duration) -> Option<Result<Outcome>> {
        let end = Instant::now().checked_add(limit);
        let mut state = self.lock();
        while matches!(*state, State::Pending) {
            let left = end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            state = match self.done.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(result) => Some(result),
            State::Pending | State::Taken => Some(Ok(Outcome::default())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operation whose completion was never called (its entry was dropped on an unforeseen path)
/// must not leave its caller waiting for ever.
#[derive(Debug)]
pub(crate) struct Completer(Arc<Completion>);

impl Completer {
    pub(crate) fn new(completion: &Arc<Completion>) -> Self {
        Self(Arc::clone(completion))
    }

    pub(crate) fn complete(self, result: Result<Outcome>) {
        self.0.complete(result);
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.0.complete(Err(Error::ShutDown));
    }
}

/// The handles that have been given out and not yet waited for.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    last: AtomicU64,
    live: Mutex<HashMap<Handle, Arc<Completion>>>,
}

impl Handles {
    /// A number for the next operation. It is used up even if the operation is then refused.
    pub(crate) fn reserve(&self) -> Handle {
        Handle(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn insert(&self, handle: Handle, completion: Arc<Completion>) {
        self.lock().insert(handle, completion);
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<Arc<Completion>> {
        self.lock().get(&handle).cloned()
    }

    pub(crate) fn forget(&self, handle: Handle) {
        self.lock().remove(&handle);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Arc<Completion>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_operation_tells_its_caller() {
        let completion = Arc::new(Completion::default());
        drop(Completer::new(&completion));
        assert_eq!(completion.wait(Duration::ZERO), Some(Err(Error::ShutDown)));
    }

    #[test]
    fn the_first_completion_counts_and_is_taken_once() {
        let completion = Arc::new(Completion::default());
        assert_eq!(completion.wait(Duration::ZERO), None);
        let outcome = Outcome {
            received_splits: vec![3],
            ..Outcome::default()
        };
        Completer::new(&completion).complete(Ok(outcome.clone()));
        completion.complete(Err(Error::ShutDown));
        assert!(completion.is_done());
        assert_eq!(completion.wait(Duration::MAX), Some(Ok(outcome)));
        assert_eq!(completion.wait(Duration::MAX), Some(Ok(Outcome::default())));
    }
}
