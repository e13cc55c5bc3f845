//! The launcher's status queries to a running job, as values in the store: which ranks have begun
//! to join, and a numbered query that rank 0 waits for and answers for all ranks.
//!
//! A query that has timed out is overwritten with an empty value, so that a rank 0 that joins the
//! job again does not answer old queries.

use std::time::Duration;

use hvd_types::Rank;

use crate::{Result, Store};

/// The value of a pending query; only its presence matters.
const PENDING: &[u8] = b"?";

/// The key that says that a rank has called `init`.
fn arrival_key(rank: Rank) -> String {
    format!("status/arrival/{rank}")
}

fn query_key(number: u64) -> String {
    format!("status/query/{number}")
}

fn answer_key(number: u64) -> String {
    format!("status/answer/{number}")
}

/// Records that `rank` has begun to join the job.
pub fn arrive(store: &mut impl Store, rank: Rank) -> Result<()> {
    store.put(&arrival_key(rank), PENDING)
}

/// Whether `rank` has begun to join the job.
pub fn has_arrived(store: &mut impl Store, rank: Rank) -> bool {
    store.get(&arrival_key(rank), Duration::ZERO).is_ok()
}

/// The launcher's side: puts query `number`, counted from 1, and waits for its answer.
pub fn ask(store: &mut impl Store, number: u64, timeout: Duration) -> Result<Vec<u8>> {
    store.put(&query_key(number), PENDING)?;
    let answer = store.get(&answer_key(number), timeout);
    store.put(&query_key(number), b"")?;
    // The answer has been read, and may be long.
    store.put(&answer_key(number), b"")?;
    answer
}

/// Rank 0's side: waits for query `number`; true if it has to be answered.
pub fn wait(store: &mut impl Store, number: u64, timeout: Duration) -> Result<bool> {
    let query = store.get(&query_key(number), timeout)?;
    Ok(!query.is_empty())
}

/// Answers query `number`.
pub fn answer(store: &mut impl Store, number: u64, answer: &[u8]) -> Result<()> {
    store.put(&answer_key(number), answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, MemoryStore};

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn queries_are_answered_in_turn_and_old_ones_skipped() {
        let store = MemoryStore::new();
        let mut launcher = store.clone();
        let missed = ask(&mut launcher, 1, Duration::from_millis(10));
        assert!(matches!(missed, Err(Error::TimedOut { .. })));
        let mut rank = store.clone();
        assert!(!wait(&mut rank, 1, LONG).unwrap(), "over");
        let asking = std::thread::Builder::new()
            .name("hvd-test-launcher".into())
            .spawn(move || ask(&mut launcher, 2, LONG))
            .unwrap();
        assert!(wait(&mut rank, 2, LONG).unwrap());
        answer(&mut rank, 2, b"fine").unwrap();
        assert_eq!(asking.join().unwrap().unwrap(), b"fine");
    }

    #[test]
    fn arrivals_are_recorded() {
        let mut store = MemoryStore::new();
        arrive(&mut store, Rank::new(3)).unwrap();
        assert!(has_arrived(&mut store, Rank::new(3)));
        assert!(!has_arrived(&mut store, Rank::new(4)));
    }
}
