//! For tests only: N ranks as N named threads, with a deadline after which the test fails instead
//! of hanging.

#![forbid(unsafe_code)]

mod tampering_proxy;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hvd_types::Rank;

pub use tampering_proxy::{Attack, Direction, Tampering, TamperingProxy};

/// How long a test's ranks may take before the test is declared hung.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Runs `body` once per rank, each on a thread of its own, and returns the results by rank.
///
/// # Panics
/// If a rank panics, or has not returned within [`DEADLINE`]; the message names the ranks.
pub fn run_ranks<T, F>(size: usize, body: F) -> Vec<T>
where
    T: Send + 'static,
    F: Fn(Rank) -> T + Send + Sync + 'static,
{
    let states: Vec<()> = vec![(); size];
    run_ranks_with(states, move |rank, ()| body(rank))
}

/// As [`run_ranks`], handing each rank one of `states`, for example its end of a transport.
///
/// # Panics
/// If a rank panics, or has not returned within [`DEADLINE`]; the message names the ranks.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub fn run_ranks_with<S, T, F>(states: Vec<S>, body: F) -> Vec<T>
where
    S: Send + 'static,
    T: Send + 'static,
    F: Fn(Rank, S) -> T + Send + Sync + 'static,
{
    let size = states.len();
    let body = Arc::new(body);
    let (sender, receiver) = mpsc::channel();
    for (index, state) in states.into_iter().enumerate() {
        let (body, sender) = (Arc::clone(&body), sender.clone());
        let spawned = thread::Builder::new()
            .name(format!("hvd-test-rank-{index}"))
            .spawn(move || {
                let value = body(Rank::from_index(index), state);
                // The test may have given up already; then the receiver is gone.
                let _ = sender.send((index, value));
            });
        if let Err(error) = spawned {
            panic!("cannot start the thread of rank {index}: {error}");
        }
    }
    drop(sender);
    collect(size, &receiver)
}

#[expect(clippy::panic, reason = "this is how a test fails")]
fn collect<T>(size: usize, receiver: &mpsc::Receiver<(usize, T)>) -> Vec<T> {
    let end = Instant::now() + DEADLINE;
    let mut results: Vec<Option<T>> = (0..size).map(|_| None).collect();
    for _ in 0..size {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((index, value)) => results[index] = Some(value),
            Err(error) => {
                let missing: Vec<usize> = (0..size)
                    .filter(|&index| results[index].is_none())
                    .collect();
                panic!("ranks {missing:?} of {size} gave no result: {error}");
            }
        }
    }
    results.into_iter().flatten().collect()
}
