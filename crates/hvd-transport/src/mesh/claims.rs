//! Which of two ranks connects a lane that both may need at once.
//!
//! Whoever first has something to send connects. If both begin at the same time, the higher rank's
//! attempt counts: that rank is the one that decides, with a look at what it has begun itself.
//!
//! - `CLAIM-1` the higher rank either connects a lane or lets the lower one, never both: what it
//!   decided first, under a lock, holds.
//! - `CLAIM-2` the lower rank lets the higher one in whatever it has begun itself, because by
//!   `CLAIM-1` its own attempt is then told that it is not needed.
//! - `CLAIM-3` the first connection of a lane decides on all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hvd_rendezvous::Purpose;
use hvd_types::Rank;

use super::hello::Verdict;

/// What one rank has decided.
#[derive(Debug)]
pub(super) struct Claims {
    rank: Rank,
    held: Mutex<HashMap<(Rank, Purpose), Side>>,
}

/// Who connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

impl Claims {
    /// Nobody connects anything yet.
    pub(super) fn new(rank: Rank) -> Self {
        let held = Mutex::default();
        Self { rank, held }
    }

    /// Whether this rank is to connect a lane that it needs now.
    pub(super) fn begin(&self, peer: Rank, purpose: Purpose) -> bool {
        let mut held = self.held();
        let is_free = !held.contains_key(&(peer, purpose));
        if is_free {
            held.insert((peer, purpose), Side::Ours);
        }
        is_free
    }

    /// What to tell a peer that connects.
    pub(super) fn judge(&self, peer: Rank, purpose: Purpose, number: u8) -> Verdict {
        let mut held = self.held();
        match (held.get(&(peer, purpose)), number) {
            (None, 0) => {}
            (Some(Side::Ours), 0) if peer > self.rank => {}
            (Some(Side::Ours), 0) => return Verdict::NotNeeded,
            (Some(Side::Theirs), 1..) => return Verdict::Welcome,
            _ => return Verdict::NotExpected,
        }
        held.insert((peer, purpose), Side::Theirs);
        Verdict::Welcome
    }

    /// Whether the peer connects a lane and was let in.
    pub(super) fn is_theirs(&self, peer: Rank, purpose: Purpose) -> bool {
        self.held().get(&(peer, purpose)) == Some(&Side::Theirs)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<(Rank, Purpose), Side>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Rank = Rank::new(3);
    const HIGH: Rank = Rank::new(5);

    /// Every order in which both ranks begin and their first connections arrive.
    #[test]
    fn claim_1_exactly_one_of_two_attempts_counts() {
        for [low_begins, high_begins] in [[true, true], [true, false], [false, true]] {
            for low_arrives_first in [true, false] {
                let (low, high) = (Claims::new(LOW), Claims::new(HIGH));
                let ours = low_begins && low.begin(HIGH, Purpose::Data);
                let from_low = |counted: &mut usize| {
                    if ours && high.judge(LOW, Purpose::Data, 0) == Verdict::Welcome {
                        *counted += 1;
                    }
                };
                let mut counted = 0;
                if low_arrives_first {
                    from_low(&mut counted);
                }
                if high_begins && high.begin(LOW, Purpose::Data) {
                    assert_eq!(
                        low.judge(HIGH, Purpose::Data, 0),
                        Verdict::Welcome,
                        "CLAIM-2"
                    );
                    counted += 1;
                }
                if !low_arrives_first {
                    from_low(&mut counted);
                }
                assert_eq!(counted, 1, "{low_begins} {high_begins} {low_arrives_first}");
            }
        }
    }

    #[test]
    fn claim_3_further_connections_follow_the_first() {
        let claims = Claims::new(LOW);
        assert_eq!(claims.judge(HIGH, Purpose::Data, 1), Verdict::NotExpected);
        assert_eq!(claims.judge(HIGH, Purpose::Data, 0), Verdict::Welcome);
        assert_eq!(claims.judge(HIGH, Purpose::Data, 1), Verdict::Welcome);
        assert_eq!(claims.judge(HIGH, Purpose::Data, 0), Verdict::NotExpected);
        assert!(!claims.begin(HIGH, Purpose::Data));
        assert!(claims.begin(HIGH, Purpose::Control), "lanes are apart");
    }
}
