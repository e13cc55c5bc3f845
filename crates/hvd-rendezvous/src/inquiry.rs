//! Questions of the launcher to a running job, as notes in the store: which ranks have begun to
//! join, and a numbered question that rank 0 waits for and answers for all.
//!
//! A question that nobody waits for any more is overwritten with nothing, so that a rank 0 that
//! joins the job again does not answer the questions of the past.

use std::time::Duration;

use hvd_types::Rank;

use crate::{Result, Store};

/// What a question says; only that there is one matters.
const ASKED: &[u8] = b"?";

/// Where a rank notes that it has called `init`.
fn arrival_key(rank: Rank) -> String {
    format!("inquiry/arrival/{rank}")
}

fn question_key(number: u64) -> String {
    format!("inquiry/question/{number}")
}

fn answer_key(number: u64) -> String {
    format!("inquiry/answer/{number}")
}

/// Notes that `rank` has begun to join the job.
pub fn arrive(store: &mut impl Store, rank: Rank) -> Result<()> {
    store.put(&arrival_key(rank), ASKED)
}

/// Whether `rank` has begun to join the job.
pub fn has_arrived(store: &mut impl Store, rank: Rank) -> bool {
    store.get(&arrival_key(rank), Duration::ZERO).is_ok()
}

/// The launcher's side: puts question `number`, counted from 1, and waits for its answer.
pub fn ask(store: &mut impl Store, number: u64, limit: Duration) -> Result<Vec<u8>> {
    store.put(&question_key(number), ASKED)?;
    let answer = store.get(&answer_key(number), limit);
    store.put(&question_key(number), b"")?;
    // What was read is needed no more, and may be long.
    store.put(&answer_key(number), b"")?;
    answer
}

/// Rank 0's side: waits for question `number`, for as long as `limit`; true if it is to be answered.
pub fn await_question(store: &mut impl Store, number: u64, limit: Duration) -> Result<bool> {
    let question = store.get(&question_key(number), limit)?;
    Ok(!question.is_empty())
}

/// Answers question `number`.
pub fn answer(store: &mut impl Store, number: u64, answer: &[u8]) -> Result<()> {
    store.put(&answer_key(number), answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, MemoryStore};

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn questions_are_answered_in_turn_and_old_ones_passed_over() {
        let store = MemoryStore::new();
        let mut launcher = store.clone();
        let missed = ask(&mut launcher, 1, Duration::from_millis(10));
        assert!(matches!(missed, Err(Error::TimedOut { .. })));
        let mut rank = store.clone();
        assert!(!await_question(&mut rank, 1, LONG).unwrap(), "over");
        let asking = std::thread::Builder::new()
            .name("hvd-test-launcher".into())
            .spawn(move || ask(&mut launcher, 2, LONG))
            .unwrap();
        assert!(await_question(&mut rank, 2, LONG).unwrap());
        answer(&mut rank, 2, b"fine").unwrap();
        assert_eq!(asking.join().unwrap().unwrap(), b"fine");
    }

    #[test]
    fn arrivals_are_known() {
        let mut store = MemoryStore::new();
        arrive(&mut store, Rank::new(3)).unwrap();
        assert!(has_arrived(&mut store, Rank::new(3)));
        assert!(!has_arrived(&mut store, Rank::new(4)));
    }
}
