//! How a call waits: on its own thread first, then by a future.
//!
//! XLA's threads are few, and may all be in calls that other ranks have not reached, so none may be
//! held up without limit. Most operations are over sooner than a change of threads would take, so
//! the caller's thread works on them for [`PATIENCE`]. The rest end on a thread for that purpose,
//! `hvd-jax`: XLA continues the program on the thread that completes a future, and the engine's
//! must not.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hvd_engine::{Engine, OperationOutput, Submission};

use crate::error::{Error, Result};
use crate::ffi::{Call, Future};

/// How long a thread of XLA is kept.
const PATIENCE: Duration = Duration::from_millis(1);

/// Runs operations as one call, and checks what has come of them.
pub(crate) fn run(
    call: &mut Call<'_>,
    engine: &Engine,
    name: &Arc<str>,
    submissions: Vec<Submission>,
    check: impl FnOnce(&[OperationOutput]) -> Result<()> + Send + 'static,
) -> Result<()> {
    let outcome = Arc::new(Outcome::default());
    let ended = Arc::clone(&outcome);
    engine.work_with_callback(name, submissions, PATIENCE, move |result| {
        let result = result.map_err(Error::from);
        ended.end(result.and_then(|outputs| check(&outputs)));
    });
    outcome.take_or_leave(call)
}

/// What has come of a call; shared by the thread of the call and the one that ends it.
#[derive(Default)]
struct Outcome {
    state: Mutex<CallState>,
    changed: Condvar,
}

#[derive(Default)]
enum CallState {
    #[default]
    Running,
    /// The call has returned and left this.
    Left(Future),
    Ended(Result<()>),
}

impl Outcome {
    /// The result, if there is one; otherwise the call gets a future, or has to wait.
    fn take_or_leave(&self, call: &mut Call<'_>) -> Result<()> {
        let mut state = self.lock();
        if matches!(*state, CallState::Running) {
            match call.future() {
                Some(future) => {
                    *state = CallState::Left(future);
                    return Ok(());
                }
                // The engine ends every operation, so this wait ends.
                None => state = self.wait(state),
            }
        }
        match std::mem::take(&mut *state) {
            CallState::Ended(result) => result,
            CallState::Running | CallState::Left(_) => Ok(()),
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, CallState>) -> MutexGuard<'a, CallState> {
        let running = |state: &mut CallState| matches!(state, CallState::Running);
        self.changed
            .wait_while(state, running)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: Result<()>) {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, CallState::Ended(Ok(()))) {
            CallState::Left(future) => complete_elsewhere(future, result),
            CallState::Running | CallState::Ended(_) => {
                *state = CallState::Ended(result);
                self.changed.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future to complete, and what has come of its call.
type EndedCall = (Future, Result<()>);

/// Completes a future on the thread `hvd-jax`; without one, here.
fn complete_elsewhere(future: Future, result: Result<()>) {
    static THREAD: OnceLock<Option<Sender<EndedCall>>> = OnceLock::new();
    let mut work = (future, result);
    if let Some(sender) = THREAD.get_or_init(start_thread) {
        match sender.send(work) {
            Ok(()) => return,
            Err(unsent) => work = unsent.0,
        }
    }
    work.0.complete(work.1);
}

fn start_thread() -> Option<Sender<EndedCall>> {
    let (sender, receiver) = mpsc::channel::<EndedCall>();
    let run = move || {
        for (future, result) in receiver {
            future.complete(result);
        }
    };
    let name = "hvd-jax".to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(run);
    thread.ok().map(|_| sender)
}
