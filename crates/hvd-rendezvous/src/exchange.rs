//! The exchanges of a store: who has come to which one, and how each of them ends. Pure state; the
//! store locks it and waits.
//!
//! - `EXCH-1` a name may serve any number of exchanges, one after the other: the last rank to come
//!   completes one, and the next arrival opens the next.
//! - `EXCH-2` only ranks that still wait count. One that timed out, hung up or came again has taken
//!   its earlier value with it, so no exchange completes with an attempt that was abandoned.
//! - `EXCH-3` an exchange that misses a rank whose process has ended fails at once.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use hvd_types::Rank;

use crate::{Error, Result};

/// What all ranks left in one exchange, by rank; shared so that no rank's answer is a copy.
pub(crate) type ExchangedValues = Arc<Vec<Vec<u8>>>;

/// More ranks than any job has; a larger size is a damaged request.
const MAX_RANKS: usize = 1 << 20;

/// How many names of failed exchanges are remembered for ranks that have yet to come there.
const FAILED: usize = 64;

/// All exchanges of a store.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    pending: HashMap<String, PendingExchange>,
    /// The latest exchanges that a rank has left for good.
    failed: VecDeque<(String, Departure)>,
    /// Ranks whose process has ended, and how.
    ended: BTreeMap<Rank, String>,
    last_attempt: u64,
}

/// An exchange that waits for more ranks.
#[derive(Debug)]
struct PendingExchange {
    /// Which attempt of each rank counts, and its value.
    values: Vec<Option<(u64, Vec<u8>)>>,
    absent: usize,
    /// Who came and waited for the others in vain: they are not to blame.
    waited: BTreeSet<Rank>,
    outcome: Arc<OnceLock<ExchangeOutcome>>,
}

#[derive(Debug)]
enum ExchangeOutcome {
    Complete {
        attempts: Vec<u64>,
        values: ExchangedValues,
    },
    Left(Departure),
}

/// The rank because of which an exchange cannot be completed.
#[derive(Debug, Clone)]
enum Departure {
    GaveUp(Rank, String),
    Ended(Rank, String),
}

/// One rank's wait in one exchange.
#[derive(Debug)]
pub(crate) struct ExchangeAttempt {
    scope: String,
    rank: Rank,
    number: u64,
    outcome: Arc<OnceLock<ExchangeOutcome>>,
}

impl Departure {
    fn error(&self) -> Error {
        match self.clone() {
            Self::GaveUp(rank, reason) => Error::GaveUp { rank, reason },
            Self::Ended(rank, reason) => Error::Ended { rank, reason },
        }
    }
}

impl Exchanges {
    /// Notes a rank's value. True if that decided the exchange, so that the others have to be
    /// woken.
    pub(crate) fn arrive(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
    ) -> Result<(ExchangeAttempt, bool)> {
        check_members(scope, rank, size)?;
        if let Some((_, departure)) = self.failed.iter().find(|(failed, _)| failed == scope) {
            return Err(departure.error());
        }
        // Whatever ended under this number, the rank lives.
        self.ended.remove(&rank);
        let new = || PendingExchange::new(size);
        let pending = self.pending.entry(scope.to_owned()).or_insert_with(new);
        let expected = pending.values.len();
        if expected != size {
            return Err(Error::Refused(format!(
                "rank {rank} came to `{scope}` as one of {size}, others as one of {expected}"
            )));
        }
        self.last_attempt += 1;
        let attempt = ExchangeAttempt {
            scope: scope.to_owned(),
            rank,
            number: self.last_attempt,
            outcome: Arc::clone(&pending.outcome),
        };
        let entry = &mut pending.values[rank.index()];
        let is_again = entry.replace((attempt.number, value.to_vec())).is_some();
        pending.absent -= usize::from(!is_again);
        let decided = self.decide(scope);
        // An earlier attempt of the same rank has to learn that it counts no more.
        Ok((attempt, decided || is_again))
    }

    /// How an attempt ends; `None` as long as it has to wait.
    pub(crate) fn outcome(&self, attempt: &ExchangeAttempt) -> Option<Result<ExchangedValues>> {
        match attempt.outcome.get() {
            Some(ExchangeOutcome::Complete { attempts, values }) => {
                let counts = attempts[attempt.rank.index()] == attempt.number;
                Some(
                    counts
                        .then(|| Arc::clone(values))
                        .ok_or_else(|| attempt.superseded()),
                )
            }
            Some(ExchangeOutcome::Left(departure)) => Some(Err(departure.error())),
            None => (!self.counts(attempt)).then(|| Err(attempt.superseded())),
        }
    }

    /// Ends an attempt that waits no more; true if that decided the exchange (`EXCH-2`).
    pub(crate) fn withdraw(&mut self, attempt: &ExchangeAttempt) -> bool {
        if !self.counts(attempt) {
            return false;
        }
        if let Some(pending) = self.pending.get_mut(&attempt.scope) {
            pending.values[attempt.rank.index()] = None;
            pending.absent += 1;
            if pending.absent == pending.values.len() {
                self.pending.remove(&attempt.scope);
                return false;
            }
        }
        self.decide(&attempt.scope)
    }

    /// Fails the exchange of this name, for those who wait there and those who are still to come.
    pub(crate) fn leave(&mut self, scope: &str, rank: Rank, reason: &str) {
        let departure = Departure::GaveUp(rank, reason.to_owned());
        self.fail(scope, departure.clone());
        if self.failed.len() == FAILED {
            self.failed.pop_front();
        }
        self.failed.push_back((scope.to_owned(), departure));
    }

    /// Notes that a rank's process has ended, and fails what waits for it (`EXCH-3`).
    pub(crate) fn end(&mut self, rank: Rank, how: &str) {
        self.ended.insert(rank, how.to_owned());
        let scopes: Vec<String> = self.pending.keys().cloned().collect();
        for scope in scopes {
            self.decide(&scope);
        }
    }

    /// Ends an attempt that has waited long enough and returns the ranks that it waited for. Those
    /// who have done the same are not among them, unless there are no others.
    pub(crate) fn time_out(&mut self, attempt: &ExchangeAttempt) -> Vec<Rank> {
        let Some(pending) = self.pending.get_mut(&attempt.scope) else {
            return Vec::new();
        };
        pending.waited.insert(attempt.rank);
        let values = &pending.values;
        let absent = values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_none());
        let absent: Vec<Rank> = absent.map(|(index, _)| Rank::from_index(index)).collect();
        let never_came = absent.iter().filter(|&rank| !pending.waited.contains(rank));
        let never_came: Vec<Rank> = never_came.copied().collect();
        self.withdraw(attempt);
        if never_came.is_empty() {
            absent
        } else {
            never_came
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether an attempt is the one that counts for its rank.
    fn counts(&self, attempt: &ExchangeAttempt) -> bool {
        self.pending.get(&attempt.scope).is_some_and(|pending| {
            let value = pending.values[attempt.rank.index()].as_ref();
            value.is_some_and(|&(number, _)| number == attempt.number)
        })
    }

    /// Completes or fails an exchange if it is time; true if so.
    fn decide(&mut self, scope: &str) -> bool {
        let Some(pending) = self.pending.get(scope) else {
            return false;
        };
        if pending.absent > 0 {
            let is_missed = |rank: &Rank| matches!(pending.values.get(rank.index()), Some(None));
            let gone = self.ended.iter().find(|(rank, _)| is_missed(rank));
            let Some((&rank, how)) = gone else {
                return false;
            };
            let departure = Departure::Ended(rank, how.clone());
            self.fail(scope, departure);
            return true;
        }
        if let Some(pending) = self.pending.remove(scope) {
            let (attempts, values) = pending.values.into_iter().flatten().unzip();
            let values = Arc::new(values);
            // Set once: the exchange is no longer in the table.
            let _ = pending
                .outcome
                .set(ExchangeOutcome::Complete { attempts, values });
        }
        true
    }

    fn fail(&mut self, scope: &str, departure: Departure) {
        if let Some(pending) = self.pending.remove(scope) {
            let _ = pending.outcome.set(ExchangeOutcome::Left(departure));
        }
    }
}

impl PendingExchange {
    fn new(size: usize) -> Self {
        Self {
            values: vec![None; size],
            absent: size,
            waited: BTreeSet::new(),
            outcome: Arc::default(),
        }
    }
}

impl ExchangeAttempt {
    fn superseded(&self) -> Error {
        let Self { scope, rank, .. } = self;
        Error::Refused(format!(
            "rank {rank} has come to `{scope}` again, so its earlier attempt is over"
        ))
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

    const ZERO: Rank = Rank::new(0);
    const ONE: Rank = Rank::new(1);

    fn arrive(exchanges: &mut Exchanges, rank: Rank, value: &[u8]) -> ExchangeAttempt {
        exchanges.arrive("e", rank, 2, value).unwrap().0
    }

    fn values(exchanges: &Exchanges, attempt: &ExchangeAttempt) -> Vec<Vec<u8>> {
        exchanges.outcome(attempt).unwrap().unwrap().to_vec()
    }

    fn error(exchanges: &Exchanges, attempt: &ExchangeAttempt) -> String {
        exchanges.outcome(attempt).unwrap().unwrap_err().to_string()
    }

    #[test]
    fn exch_1_the_next_exchange_may_begin_before_all_have_the_values_of_the_last() {
        let mut exchanges = Exchanges::default();
        let slow = arrive(&mut exchanges, ONE, b"1");
        let quick = arrive(&mut exchanges, ZERO, b"0");
        assert_eq!(values(&exchanges, &quick), [b"0", b"1"]);
        let again = arrive(&mut exchanges, ZERO, b"again");
        assert!(exchanges.outcome(&again).is_none(), "rank 1 is not there");
        assert_eq!(values(&exchanges, &slow), [b"0", b"1"]);
        assert!(!exchanges.is_empty());
        let late = arrive(&mut exchanges, ONE, b"late");
        for attempt in [late, again] {
            assert_eq!(values(&exchanges, &attempt), [&b"again"[..], b"late"]);
        }
        assert!(exchanges.is_empty());
    }

    #[test]
    fn exch_2_an_abandoned_attempt_completes_nothing() {
        let mut exchanges = Exchanges::default();
        let abandoned = arrive(&mut exchanges, ZERO, b"old");
        assert!(!exchanges.withdraw(&abandoned));
        assert!(exchanges.is_empty(), "no rank waits");
        let waiting = arrive(&mut exchanges, ONE, b"1");
        assert!(exchanges.outcome(&waiting).is_none());
        assert!(!exchanges.withdraw(&abandoned), "the second time, too late");
        let next = arrive(&mut exchanges, ZERO, b"new");
        for attempt in [waiting, next] {
            assert_eq!(values(&exchanges, &attempt), [&b"new"[..], b"1"]);
        }
    }

    #[test]
    fn exch_2_a_rank_that_comes_again_ends_its_earlier_attempt() {
        let mut exchanges = Exchanges::default();
        let first = arrive(&mut exchanges, ZERO, b"old");
        let (second, wakes) = exchanges.arrive("e", ZERO, 2, b"new").unwrap();
        assert!(wakes);
        let text = "rank 0 has come to `e` again, so its earlier attempt is over";
        assert!(error(&exchanges, &first).ends_with(text));
        let other = arrive(&mut exchanges, ONE, b"1");
        assert!(error(&exchanges, &first).ends_with(text), "also afterwards");
        for attempt in [second, other] {
            assert_eq!(values(&exchanges, &attempt), [&b"new"[..], b"1"]);
        }
    }

    #[test]
    fn exch_3_a_rank_that_has_ended_is_not_waited_for() {
        let mut exchanges = Exchanges::default();
        let before = arrive(&mut exchanges, ZERO, b"0");
        exchanges.end(ONE, "on host `h` exited with code 0");
        let after = exchanges.arrive("f", ZERO, 2, b"0").unwrap().0;
        for attempt in [before, after] {
            let text = error(&exchanges, &attempt);
            assert!(
                text.starts_with("rank 1 on host `h` exited with code 0"),
                "{text}"
            );
        }
        assert!(exchanges.is_empty());
        // The number is taken by another process.
        arrive(&mut exchanges, ONE, b"1");
        let next = arrive(&mut exchanges, ZERO, b"0");
        assert_eq!(values(&exchanges, &next), [b"0", b"1"]);
    }

    #[test]
    fn exch_3_a_rank_that_ends_in_an_exchange_fails_it_when_its_connection_closes() {
        let mut exchanges = Exchanges::default();
        let survivor = arrive(&mut exchanges, ZERO, b"0");
        let victim = exchanges.arrive("g", ONE, 3, b"1").unwrap().0;
        let other = exchanges.arrive("g", ZERO, 3, b"0").unwrap().0;
        exchanges.end(ONE, "was killed");
        assert!(exchanges.outcome(&survivor).is_some());
        assert!(exchanges.outcome(&other).is_none(), "its value is there");
        assert!(exchanges.withdraw(&victim));
        assert!(error(&exchanges, &other).starts_with("rank 1 was killed"));
    }

    #[test]
    fn who_waited_in_vain_is_not_blamed_by_the_next() {
        let mut exchanges = Exchanges::default();
        let attempt =
            |exchanges: &mut Exchanges, rank| exchanges.arrive("e", rank, 3, b"").unwrap().0;
        let (zero, one) = (attempt(&mut exchanges, ZERO), attempt(&mut exchanges, ONE));
        let two = Rank::new(2);
        assert_eq!(exchanges.time_out(&zero), [two]);
        assert_eq!(exchanges.time_out(&one), [two]);
        assert!(exchanges.is_empty());
    }

    #[test]
    fn a_rank_that_leaves_fails_those_who_wait_and_those_who_come() {
        let mut exchanges = Exchanges::default();
        let waiting = arrive(&mut exchanges, ZERO, b"0");
        exchanges.leave("e", ONE, "on host `h` gave up");
        assert_eq!(error(&exchanges, &waiting), "rank 1 on host `h` gave up");
        let late = exchanges.arrive("e", ZERO, 2, b"0").unwrap_err();
        assert!(matches!(late, Error::GaveUp { rank: ONE, .. }));
        for number in 0..2 * FAILED {
            exchanges.leave(&number.to_string(), ONE, "gave up");
        }
        assert_eq!(exchanges.failed.len(), FAILED, "not for ever");
    }

    #[test]
    fn members_have_to_agree_on_the_size() {
        let mut exchanges = Exchanges::default();
        arrive(&mut exchanges, ZERO, b"");
        let error = exchanges.arrive("e", ONE, 3, b"").unwrap_err().to_string();
        let expected = "rank 1 came to `e` as one of 3, others as one of 2";
        assert!(error.contains(expected), "{error}");
        assert!(exchanges.arrive("f", Rank::new(2), 2, b"").is_err());
    }
}
