//! The end of a job's communication: one [`Failure`], raised once, that wakes every wait.
//!
//! The first to notice (a closed connection, a message from another rank, a deadline) raises
//! it; later failures are consequences and are dropped. All clones share one state.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use hvd_types::Rank;

/// Which rank failed, where it ran, and what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} on host `{host}` {reason}")]
pub struct Failure {
    /// The rank that failed first.
    pub rank: Rank,
    /// The host it ran on.
    pub host: String,
    /// What was seen, as the rest of a sentence: `closed its connection without a goodbye`.
    pub reason: String,
}

/// Something that ends another thread's [`Transport::wait`](crate::Transport::wait).
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`, which must be cheap, must not block and may be called often.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Ends the wait, or the next one if none is under way.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// Shared knowledge of whether, and why, this job's communication is over.
#[derive(Debug, Clone, Default)]
pub struct Abort(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cause: OnceLock<Failure>,
    /// Ranks that are known to have left in peace, and since when.
    departed: Mutex<Vec<(Rank, Instant)>>,
    wakers: Mutex<Vec<Waker>>,
}

impl Abort {
    /// A state in which nothing has failed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares the job's communication over and wakes every registered waiter. The first call
    /// wins and returns true.
    pub fn raise(&self, failure: Failure) -> bool {
        let first = self.0.cause.set(failure).is_ok();
        if first {
            for waker in self.wakers().iter() {
                waker.wake();
            }
        }
        first
    }

    /// Records that `rank` has shut down, which is no failure unless another rank needs it.
    pub(crate) fn depart(&self, rank: Rank) {
        self.departures().push((rank, Instant::now()));
        for waker in self.wakers().iter() {
            waker.wake();
        }
    }

    /// Since when `rank` is known to have left in peace.
    pub(crate) fn departed(&self, rank: Rank) -> Option<Instant> {
        let departures = self.departures();
        let departure = departures.iter().find(|(departed, _)| *departed == rank);
        departure.map(|&(_, since)| since)
    }

    /// The first failure, if there was one.
    pub fn cause(&self) -> Option<&Failure> {
        self.0.cause.get()
    }

    /// Fails if the communication is over.
    pub fn check(&self) -> crate::Result<()> {
        match self.cause() {
            None => Ok(()),
            Some(failure) => Err(failure.clone().into()),
        }
    }

    /// The reason for an error: a failure that is known by now says more than its consequence.
    pub(crate) fn explain(&self, error: crate::Error) -> crate::Error {
        self.check().err().unwrap_or(error)
    }

    /// Has `waker` called when a failure is raised, at once if it was already.
    pub fn on_raise(&self, waker: Waker) {
        // The lock is held over the look: a raise either set the cause before it, or finds the
        // new waker in the list after it.
        let mut wakers = self.wakers();
        if self.cause().is_some() {
            waker.wake();
        }
        wakers.push(waker);
    }

    fn departures(&self) -> std::sync::MutexGuard<'_, Vec<(Rank, Instant)>> {
        let departed = self.0.departed.lock();
        departed.unwrap_or_else(PoisonError::into_inner)
    }

    fn wakers(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn failure(rank: u32) -> Failure {
        Failure {
            rank: Rank::new(rank),
            host: "h".into(),
            reason: "is gone".into(),
        }
    }

    #[test]
    fn first_failure_wins_and_wakes_all() {
        let abort = Abort::new();
        let woken = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&woken);
        let waker = Waker::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        abort.on_raise(waker.clone());
        assert!(abort.check().is_ok());

        assert!(abort.raise(failure(3)));
        assert!(!abort.raise(failure(5)));

        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(
            abort.check().unwrap_err().to_string(),
            "rank 3 on host `h` is gone"
        );
        abort.on_raise(waker);
        assert_eq!(
            woken.load(Ordering::Relaxed),
            2,
            "a late waiter is woken at once"
        );
    }
}
