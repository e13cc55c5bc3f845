//! The exit: a caller's ticket for one operation.
//!
//! The engine thread completes it once; the caller polls it or sleeps on it. Neither ever holds
//! the other up: completion takes a lock that is held for a move only.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hvd_types::Shape;

use crate::hash::FastMap;
use crate::tensor::Buffer;
use crate::{Error, Result};

/// The number of an operation, counted from 1 in each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// What a completed operation gives back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OperationOutput {
    /// The result, if the engine allocated it.
    pub output: Option<Buffer>,
    /// Shape of the result.
    pub shape: Shape,
    /// Rows received from each rank, after an alltoall.
    pub received_splits: Vec<u64>,
    /// The rank that joined last, after a join; the number of the set, after adding one.
    pub number: Option<u32>,
}

impl OperationOutput {
    /// The output of something that gives back nothing but a number.
    pub(crate) fn numbered(number: u32) -> Self {
        Self {
            number: Some(number),
            ..Self::default()
        }
    }
}

/// The shared state of one operation's end.
#[derive(Debug, Default)]
pub struct Completion {
    /// Set once the result is there, so that a look takes no lock.
    done: AtomicBool,
    state: Mutex<CompletionState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct CompletionState {
    /// The result, from its arrival until a caller takes it.
    result: Option<Result<OperationOutput>>,
    /// How many callers sleep. Without any, nothing is woken: that would be a system call
    /// for each of hundreds of tensors.
    sleepers: usize,
}

/// Where an operation stands.
#[derive(Debug)]
pub enum OperationProgress {
    /// It has ended, like this, and its handle is forgotten.
    Ended(Result<OperationOutput>),
    /// It goes on; this is what to wait for.
    UnderWay(Arc<Completion>),
}

impl Completion {
    /// Ends the operation and wakes its waiters. Only the first call counts.
    pub(crate) fn complete(&self, result: Result<OperationOutput>) {
        let mut state = self.lock();
        if self.is_done() {
            return;
        }
        state.result = Some(result);
        self.done.store(true, Ordering::Release);
        let sleepers = state.sleepers;
        drop(state);
        if sleepers > 0 {
            self.wake.notify_all();
        }
    }

    /// Whether the operation has ended.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Waits up to `limit` and takes the result; `None` if it has not ended by then. A second
    /// caller gets an empty output.
    pub fn wait(&self, limit: Duration) -> Option<Result<OperationOutput>> {
        let mut state = self.lock();
        if !self.is_done() {
            let end = Instant::now().checked_add(limit);
            state.sleepers += 1;
            state = self.sleep(state, limit, end);
            state.sleepers -= 1;
        }
        self.is_done().then(|| {
            state
                .result
                .take()
                .unwrap_or_else(|| Ok(OperationOutput::default()))
        })
    }

    /// Returns when the operation has ended, or at the end of the time.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, CompletionState>,
        limit: Duration,
        end: Option<Instant>,
    ) -> MutexGuard<'a, CompletionState> {
        while !self.is_done() {
            let left = end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = match self.wake.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, CompletionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something to do at the end of an operation, on the thread that carried it out.
pub(crate) type Continuation = Box<dyn FnOnce(Result<OperationOutput>) + Send>;

/// An operation whose completion was never called (its entry was dropped on an unforeseen path)
/// must not leave its caller waiting for ever.
#[derive(Debug)]
pub(crate) struct Completer(Option<End>);

enum End {
    Shared(Arc<Completion>),
    Continue(Continuation),
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "Shared",
            Self::Continue(_) => "Continue",
        })
    }
}

impl Completer {
    pub(crate) fn new(completion: &Arc<Completion>) -> Self {
        Self(Some(End::Shared(Arc::clone(completion))))
    }

    /// Whether the operation is completed by callback.
    pub(crate) fn has_callback(&self) -> bool {
        matches!(self.0, Some(End::Continue(_)))
    }

    /// For an operation completed by callback.
    pub(crate) fn continuing(continuation: Continuation) -> Self {
        Self(Some(End::Continue(continuation)))
    }

    pub(crate) fn complete(mut self, result: Result<OperationOutput>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<OperationOutput>) {
        match self.0.take() {
            Some(End::Shared(completion)) => completion.complete(result),
            Some(End::Continue(continuation)) => continuation(result),
            None => {}
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.end(Err(Error::ShutDown));
    }
}

/// The last number that was given out. Of all engines of this process: a handle of one that was
/// shut down must not be taken for one of the next.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The handles that have been given out and not yet waited for.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    live: Mutex<Live>,
}

/// The handles of an engine that is shut down. Its operations have ended, or are about to.
#[derive(Debug)]
pub struct LastHandles(pub(crate) Arc<Handles>);

impl LastHandles {
    /// As [`Engine::progress`](crate::Engine::progress).
    pub fn progress(&self, handle: Handle) -> Option<OperationProgress> {
        self.0.progress(handle)
    }

    /// As [`Engine::completion`](crate::Engine::completion).
    pub fn completion(&self, handle: Handle) -> Option<Arc<Completion>> {
        self.0.get(handle)
    }

    /// As [`Engine::forget`](crate::Engine::forget).
    pub fn forget(&self, handle: Handle) {
        self.0.forget(handle);
    }
}

type Live = FastMap<Handle, Arc<Completion>>;

impl Handles {
    /// A number for the next operation. It is used up even if the operation is then refused.
    pub(crate) fn reserve() -> Handle {
        Handle(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn insert(&self, handle: Handle, completion: Arc<Completion>) {
        self.lock().insert(handle, completion);
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<Arc<Completion>> {
        self.lock().get(&handle).cloned()
    }

    /// Forgets the handle if the operation has ended, all under one lock.
    pub(crate) fn progress(&self, handle: Handle) -> Option<OperationProgress> {
        let mut live = self.lock();
        let completion = live.get(&handle)?;
        if !completion.is_done() {
            return Some(OperationProgress::UnderWay(Arc::clone(completion)));
        }
        let ended = live.remove(&handle)?;
        drop(live);
        ended.wait(Duration::ZERO).map(OperationProgress::Ended)
    }

    pub(crate) fn forget(&self, handle: Handle) {
        self.lock().remove(&handle);
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
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
        let outcome = OperationOutput {
            received_splits: vec![3],
            ..OperationOutput::default()
        };
        Completer::new(&completion).complete(Ok(outcome.clone()));
        completion.complete(Err(Error::ShutDown));
        assert!(completion.is_done());
        assert_eq!(completion.wait(Duration::MAX), Some(Ok(outcome)));
        assert_eq!(
            completion.wait(Duration::MAX),
            Some(Ok(OperationOutput::default()))
        );
    }
    #[test]
    fn a_sleeper_is_woken() {
        let completion = Arc::new(Completion::default());
        let completer = Completer::new(&completion);
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| completion.wait(Duration::from_secs(60)));
            while completion.lock().sleepers == 0 {
                std::thread::yield_now();
            }
            completer.complete(Ok(OperationOutput::default()));
            assert_eq!(
                waiting.join().unwrap(),
                Some(Ok(OperationOutput::default()))
            );
        });
        assert_eq!(completion.lock().sleepers, 0);
    }

    #[test]
    fn engines_of_one_process_do_not_share_numbers() {
        assert_ne!(Handles::reserve(), Handles::reserve());
    }

    #[test]
    fn a_handle_is_forgotten_with_its_result() {
        let handles = Handles::default();
        let completion = Arc::new(Completion::default());
        let completer = Completer::new(&completion);
        let handle = Handles::reserve();
        assert!(handles.progress(handle).is_none());
        handles.insert(handle, completion);
        assert!(matches!(
            handles.progress(handle),
            Some(OperationProgress::UnderWay(_))
        ));
        completer.complete(Err(Error::ShutDown));
        let ended = handles.progress(handle);
        assert!(matches!(
            ended,
            Some(OperationProgress::Ended(Err(Error::ShutDown)))
        ));
        assert!(handles.progress(handle).is_none());
    }
}
