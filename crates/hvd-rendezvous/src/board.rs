//! The noticeboard itself: values and exchanges behind one lock, with one condition variable for
//! everybody who waits. Shared by [`crate::Server`]'s threads and [`crate::MemoryStore`]; knows
//! neither sockets nor bytes on a wire.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hvd_types::Rank;

use crate::{Error, Result, deadline};

/// More ranks than any job has; a larger size is a damaged request.
const MAX_RANKS: usize = 1 << 20;

/// What all ranks left in one exchange, by rank; shared so that no rank's answer is a copy.
pub(crate) type Values = Arc<Vec<Vec<u8>>>;

#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    /// Signalled when a value is put, or the board is closed.
    put: Condvar,
    /// Signalled when an exchange is complete, or the board is closed. Apart from `put`, so that
    /// each rank's first word does not wake all that already wait for the others.
    complete: Condvar,
}

#[derive(Debug, Default)]
struct State {
    values: HashMap<String, Vec<u8>>,
    exchanges: HashMap<String, Exchange>,
    closed: bool,
}

#[derive(Debug)]
enum Exchange {
    Gathering {
        values: Vec<Option<Vec<u8>>>,
        absent: usize,
    },
    /// All are there; it is forgotten when nobody is left in `waiting`.
    Complete { values: Values, waiting: Vec<bool> },
}

impl Board {
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

    pub(crate) fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        let end = deadline::after(timeout);
        let mut state = self.open()?;
        loop {
            if let Some(value) = state.values.get(key) {
                return Ok(value.clone());
            }
            let changed = Self::wait(&self.put, state, end)?;
            state = changed.ok_or_else(|| Error::TimedOut {
                key: key.to_owned(),
                seconds: timeout.as_secs(),
            })?;
        }
    }

    pub(crate) fn exchange(
        &self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> Result<Values> {
        check_members(scope, rank, size)?;
        let end = deadline::after(timeout);
        let mut state = self.open()?;
        if state.arrive(scope, rank, size, value)? {
            self.complete.notify_all();
        }
        loop {
            if let Some(values) = state.take(scope, rank) {
                return Ok(values);
            }
            state = match Self::wait(&self.complete, state, end)? {
                Some(state) => state,
                None => return self.lock().give_up(scope, rank, size, timeout),
            };
        }
    }

    /// Ends every wait, and refuses all later requests.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.put.notify_all();
        self.complete.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.closed {
            Err(Error::Stopped)
        } else {
            Ok(state)
        }
    }

    /// Waits for a change; `None` if `end` has passed.
    fn wait<'a>(
        changed: &Condvar,
        state: MutexGuard<'a, State>,
        end: Instant,
    ) -> Result<Option<MutexGuard<'a, State>>> {
        let left = end.saturating_duration_since(Instant::now());
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

impl State {
    /// Notes a rank's value; true if it was the last one missing.
    fn arrive(&mut self, scope: &str, rank: Rank, size: usize, value: &[u8]) -> Result<bool> {
        let exchange =
            self.exchanges
                .entry(scope.to_owned())
                .or_insert_with(|| Exchange::Gathering {
                    values: vec![None; size],
                    absent: size,
                });
        let expected = exchange.size();
        if expected != size {
            return Err(Error::Refused(format!(
                "rank {rank} came to `{scope}` as one of {size}, others as one of {expected}"
            )));
        }
        let Exchange::Gathering { values, absent } = exchange else {
            return Ok(false);
        };
        if values[rank.index()].replace(value.to_vec()).is_none() {
            *absent -= 1;
        }
        if *absent > 0 {
            return Ok(false);
        }
        let values = Arc::new(values.drain(..).flatten().collect());
        *exchange = Exchange::Complete {
            values,
            waiting: vec![true; size],
        };
        Ok(true)
    }

    /// The values of a complete exchange, which is forgotten when the last rank takes them.
    fn take(&mut self, scope: &str, rank: Rank) -> Option<Values> {
        let Entry::Occupied(mut entry) = self.exchanges.entry(scope.to_owned()) else {
            return None;
        };
        let Exchange::Complete { values, waiting } = entry.get_mut() else {
            return None;
        };
        let values = Arc::clone(values);
        waiting[rank.index()] = false;
        if !waiting.contains(&true) {
            entry.remove();
        }
        Some(values)
    }

    /// The end of a wait that took too long. The lock was let go since the last look, so the
    /// exchange may be complete after all.
    fn give_up(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        timeout: Duration,
    ) -> Result<Values> {
        if let Some(values) = self.take(scope, rank) {
            return Ok(values);
        }
        let missing = match self.exchanges.get(scope) {
            Some(Exchange::Gathering { values, .. }) => (0..values.len())
                .filter(|&index| values[index].is_none())
                .map(Rank::from_index)
                .collect(),
            _ => Vec::new(),
        };
        let (scope, seconds) = (scope.to_owned(), timeout.as_secs());
        Err(Error::MissingRanks {
            scope,
            missing,
            size,
            seconds,
        })
    }
}

impl Exchange {
    fn size(&self) -> usize {
        match self {
            Self::Gathering { values, .. } => values.len(),
            Self::Complete { waiting, .. } => waiting.len(),
        }
    }
}

fn check_members(scope: &str, rank: Rank, size: usize) -> Result<()> {
    if rank.index() < size && size <= MAX_RANKS {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "rank {rank} of {size} cannot take part in `{scope}`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_finished_exchange_is_forgotten() {
        let board = Arc::new(Board::default());
        for round in 0..100 {
            let scope = format!("round {round}");
            let board = Arc::clone(&board);
            let inner = Arc::clone(&board);
            let results = hvd_testkit::run_ranks(3, move |rank| {
                inner
                    .exchange(&scope, rank, 3, &rank.number().to_le_bytes()[..1], LONG)
                    .unwrap()
            });
            assert!(results.iter().all(|values| **values == [[0], [1], [2]]));
            assert!(board.lock().exchanges.is_empty(), "after round {round}");
        }
    }

    #[test]
    fn a_rank_may_come_again_after_a_timeout() {
        let board = Board::default();
        let error = board
            .exchange("e", Rank::new(1), 3, b"old", SHORT)
            .unwrap_err();
        assert!(
            matches!(&error, Error::MissingRanks { missing, .. }
                if *missing == [Rank::new(0), Rank::new(2)]),
            "{error}"
        );
        let _ = board.exchange("e", Rank::new(0), 3, b"zero", SHORT);
        let _ = board.exchange("e", Rank::new(1), 3, b"new", SHORT);
        let values = board.exchange("e", Rank::new(2), 3, b"two", SHORT).unwrap();
        assert_eq!(
            **values,
            [b"zero".to_vec(), b"new".to_vec(), b"two".to_vec()]
        );
    }

    #[test]
    fn members_have_to_agree_on_the_size() {
        let board = Board::default();
        let _ = board.exchange("e", Rank::new(0), 2, b"", SHORT);
        let error = board
            .exchange("e", Rank::new(1), 3, b"", SHORT)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("rank 1 came to `e` as one of 3, others as one of 2")
        );
        assert!(board.exchange("f", Rank::new(2), 2, b"", SHORT).is_err());
    }

    #[test]
    fn closing_ends_waits() {
        let board = Arc::new(Board::default());
        let waiting = Arc::clone(&board);
        let waiter = std::thread::Builder::new()
            .name("hvd-test-waiter".into())
            .spawn(move || waiting.get("never", LONG))
            .unwrap();
        board.close();
        assert!(matches!(waiter.join().unwrap(), Err(Error::Stopped)));
        assert!(matches!(board.put("k", b""), Err(Error::Stopped)));
    }
}
