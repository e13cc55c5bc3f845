//! The key-value store itself: values and exchanges behind one lock, with one condition variable
//! for every thread that waits. Shared by [`crate::Server`]'s threads and [`crate::MemoryStore`];
//! knows neither sockets nor bytes on a wire.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hvd_types::Rank;

use crate::exchange::{ExchangedValues, Exchanges};
use crate::{Error, Result, deadline};

#[derive(Debug, Default)]
pub(crate) struct SharedStore {
    state: Mutex<StoreContents>,
    /// Signalled when a value is put, a client has hung up, or the store is closed.
    put: Condvar,
    /// Signalled when an exchange is decided, a client has hung up, or the store is closed. Apart
    /// from `put`, so that each rank's first word does not wake all that already wait for the
    /// others.
    complete: Condvar,
}

#[derive(Debug, Default)]
struct StoreContents {
    values: HashMap<String, Vec<u8>>,
    exchanges: Exchanges,
    last_number: u64,
    closed: bool,
}

/// For how long a caller waits.
#[derive(Debug, Clone)]
pub(crate) struct WaitLimit {
    timeout: Duration,
    end: Instant,
    /// Set, before [`SharedStore::wake`], when the answer is wanted no more.
    hung_up: Arc<AtomicBool>,
}

impl WaitLimit {
    /// A wait of a caller who does not go away.
    pub(crate) fn of(timeout: Duration) -> Self {
        Self::until_hang_up(timeout, Arc::default())
    }

    /// A wait that also ends when the flag is set.
    pub(crate) fn until_hang_up(timeout: Duration, hung_up: Arc<AtomicBool>) -> Self {
        Self {
            timeout,
            end: deadline::after(timeout),
            hung_up,
        }
    }
}

impl SharedStore {
    pub(crate) fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        let mut state = self.open()?;
        state.values.insert(key.to_owned(), value.to_vec());
        drop(state);
        self.put.notify_all();
        Ok(())
    }

    pub(crate) fn look(&self, key: &str) -> Option<Vec<u8>> {
        self.lock().values.get(key).cloned()
    }

    pub(crate) fn get(&self, key: &str, limit: &WaitLimit) -> Result<Vec<u8>> {
        let mut state = self.open()?;
        loop {
            if let Some(value) = state.values.get(key) {
                return Ok(value.clone());
            }
            let changed = Self::wait(&self.put, state, limit)?;
            state = changed.ok_or_else(|| Error::TimedOut {
                key: key.to_owned(),
                seconds: limit.timeout.as_secs(),
            })?;
        }
    }

    /// A number that was not given before.
    pub(crate) fn number(&self) -> Result<u64> {
        let mut state = self.open()?;
        state.last_number += 1;
        Ok(state.last_number)
    }

    pub(crate) fn exchange(
        &self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        limit: &WaitLimit,
    ) -> Result<ExchangedValues> {
        let mut state = self.open()?;
        let (attempt, wakes) = state.exchanges.arrive(scope, rank, size, value)?;
        if wakes {
            self.complete.notify_all();
        }
        let error = loop {
            if let Some(outcome) = state.exchanges.outcome(&attempt) {
                return outcome;
            }
            match Self::wait(&self.complete, state, limit) {
                Ok(Some(changed)) => state = changed,
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        // The lock was let go since the last look, so the exchange may be decided after all.
        let mut state = self.lock();
        if error.is_none()
            && let Some(outcome) = state.exchanges.outcome(&attempt)
        {
            return outcome;
        }
        let Some(error) = error else {
            return Err(Error::MissingRanks {
                scope: scope.to_owned(),
                missing: state.exchanges.time_out(&attempt),
                size,
                seconds: limit.timeout.as_secs(),
            });
        };
        if state.exchanges.withdraw(&attempt) {
            self.complete.notify_all();
        }
        Err(error)
    }

    /// Fails an exchange for all: `rank` will not come.
    pub(crate) fn leave(&self, scope: &str, rank: Rank, reason: &str) -> Result<()> {
        self.open()?.exchanges.leave(scope, rank, reason);
        self.complete.notify_all();
        Ok(())
    }

    /// Fails every exchange that waits for a rank whose process has ended.
    pub(crate) fn end_rank(&self, rank: Rank, how: &str) {
        self.lock().exchanges.end(rank, how);
        self.complete.notify_all();
    }

    /// Has all who wait look whether their flag is set.
    pub(crate) fn wake(&self) {
        // A thread that has looked before waits by now, and one that has not will see the flag.
        drop(self.lock());
        self.put.notify_all();
        self.complete.notify_all();
    }

    /// Ends every wait, and refuses all later requests.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.put.notify_all();
        self.complete.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, StoreContents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, StoreContents>> {
        let state = self.lock();
        if state.closed {
            Err(Error::Stopped)
        } else {
            Ok(state)
        }
    }

    /// Waits for a change; `None` if the time is over.
    fn wait<'a>(
        changed: &Condvar,
        state: MutexGuard<'a, StoreContents>,
        limit: &WaitLimit,
    ) -> Result<Option<MutexGuard<'a, StoreContents>>> {
        if limit.hung_up.load(Ordering::Acquire) {
            return Err(Error::HungUp);
        }
        let left = limit.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let state = match changed.wait_timeout(state, left) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
        if state.closed {
            Err(Error::Stopped)
        } else {
            Ok(Some(state))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_finished_exchange_is_forgotten() {
        let store = Arc::new(SharedStore::default());
        for round in 0..100 {
            let scope = format!("round {}", round % 2);
            let store = Arc::clone(&store);
            let inner = Arc::clone(&store);
            let results = hvd_testkit::run_ranks(3, move |rank| {
                let (value, limit) = (rank.number().to_le_bytes(), WaitLimit::of(LONG));
                inner
                    .exchange(&scope, rank, 3, &value[..1], &limit)
                    .unwrap()
            });
            assert!(results.iter().all(|values| **values == [[0], [1], [2]]));
            assert!(store.lock().exchanges.is_empty(), "after round {round}");
        }
    }

    #[test]
    fn a_rank_that_timed_out_is_not_there_any_more_and_may_come_again() {
        let store = Arc::new(SharedStore::default());
        let attempt = |rank, limit| {
            let limit = WaitLimit::of(limit);
            store.exchange("e", Rank::new(rank), 2, &[0], &limit)
        };
        for rank in [1, 0, 1] {
            let error = attempt(rank, SHORT).unwrap_err();
            assert!(
                matches!(&error, Error::MissingRanks { missing, .. }
                    if *missing == [Rank::new(1 - rank)]),
                "{error}"
            );
        }
        let inner = Arc::clone(&store);
        let results = hvd_testkit::run_ranks(2, move |rank| {
            let limit = WaitLimit::of(LONG);
            inner.exchange("e", rank, 2, b"new", &limit).unwrap()
        });
        assert!(results.iter().all(|values| **values == [b"new", b"new"]));
    }

    #[test]
    fn a_hang_up_ends_the_wait_and_withdraws_the_value() {
        let store = Arc::new(SharedStore::default());
        let hung_up = Arc::new(AtomicBool::new(false));
        let limit = WaitLimit::until_hang_up(LONG, Arc::clone(&hung_up));
        let (waiting, theirs) = (Arc::clone(&store), limit.clone());
        let waiter = std::thread::Builder::new()
            .name("hvd-test-waiter".into())
            .spawn(move || waiting.exchange("e", Rank::new(0), 2, b"old", &theirs))
            .unwrap();
        hung_up.store(true, Ordering::Release);
        store.wake();
        assert!(matches!(waiter.join().unwrap(), Err(Error::HungUp)));
        assert!(matches!(store.get("k", &limit), Err(Error::HungUp)));
        let limit = WaitLimit::of(SHORT);
        let error = store.exchange("e", Rank::new(1), 2, b"", &limit);
        assert!(matches!(error, Err(Error::MissingRanks { .. })));
    }

    #[test]
    fn numbers_are_given_once() {
        let store = SharedStore::default();
        assert_eq!(store.number().unwrap() + 1, store.number().unwrap());
    }

    #[test]
    fn closing_ends_waits() {
        let store = Arc::new(SharedStore::default());
        let waiting = Arc::clone(&store);
        let waiter = std::thread::Builder::new()
            .name("hvd-test-waiter".into())
            .spawn(move || waiting.get("never", &WaitLimit::of(LONG)))
            .unwrap();
        store.close();
        assert!(matches!(waiter.join().unwrap(), Err(Error::Stopped)));
        assert!(matches!(store.put("k", b""), Err(Error::Stopped)));
    }
}
