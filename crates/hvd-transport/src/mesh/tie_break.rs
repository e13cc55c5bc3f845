//! Which of two ranks connects a lane that both may need at once.
//!
//! The rank that first has something to send connects. If both begin at the same time, the higher
//! rank's attempt counts: that rank decides, by what it has begun itself.
//!
//! - `TIE-1` the higher rank either connects a lane or lets the lower one, never both: what it
//!   decided first, under a lock, holds.
//! - `TIE-2` the lower rank lets the higher one in whatever it has begun itself, because by
//!   `TIE-1` its own attempt is then refused as not needed.
//! - `TIE-3` the first connection of a lane decides on all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hvd_rendezvous::Purpose;
use hvd_types::Rank;

use super::hello::HelloReply;

/// What one rank has decided.
#[derive(Debug)]
pub(super) struct TieBreak {
    rank: Rank,
    decided: Mutex<HashMap<(Rank, Purpose), Initiator>>,
}

/// Which side connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initiator {
    Us,
    Peer,
}

impl TieBreak {
    /// No lane is being connected yet.
    pub(super) fn new(rank: Rank) -> Self {
        let decided = Mutex::default();
        Self { rank, decided }
    }

    /// Whether this rank is to connect a lane that it needs now.
    pub(super) fn begin(&self, peer: Rank, purpose: Purpose) -> bool {
        let mut decided = self.decided();
        let is_free = !decided.contains_key(&(peer, purpose));
        if is_free {
            decided.insert((peer, purpose), Initiator::Us);
        }
        is_free
    }

    /// The reply to a peer that connects.
    pub(super) fn reply_to(&self, peer: Rank, purpose: Purpose, number: u8) -> HelloReply {
        let mut decided = self.decided();
        match (decided.get(&(peer, purpose)), number) {
            (None, 0) => {}
            (Some(Initiator::Us), 0) if peer > self.rank => {}
            (Some(Initiator::Us), 0) => return HelloReply::NotNeeded,
            (Some(Initiator::Peer), 1..) => return HelloReply::Welcome,
            _ => return HelloReply::NotExpected,
        }
        decided.insert((peer, purpose), Initiator::Peer);
        HelloReply::Welcome
    }

    /// Whether the peer connects a lane and was let in.
    pub(super) fn is_peer_connecting(&self, peer: Rank, purpose: Purpose) -> bool {
        self.decided().get(&(peer, purpose)) == Some(&Initiator::Peer)
    }

    fn decided(&self) -> MutexGuard<'_, HashMap<(Rank, Purpose), Initiator>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Rank = Rank::new(3);
    const HIGH: Rank = Rank::new(5);

    /// Every order in which both ranks begin and their first connections arrive.
    #[test]
    fn tie_1_exactly_one_of_two_attempts_counts() {
        for [low_begins, high_begins] in [[true, true], [true, false], [false, true]] {
            for low_arrives_first in [true, false] {
                let (low, high) = (TieBreak::new(LOW), TieBreak::new(HIGH));
                let ours = low_begins && low.begin(HIGH, Purpose::Data);
                let from_low = |counted: &mut usize| {
                    if ours && high.reply_to(LOW, Purpose::Data, 0) == HelloReply::Welcome {
                        *counted += 1;
                    }
                };
                let mut counted = 0;
                if low_arrives_first {
                    from_low(&mut counted);
                }
                if high_begins && high.begin(LOW, Purpose::Data) {
                    assert_eq!(
                        low.reply_to(HIGH, Purpose::Data, 0),
                        HelloReply::Welcome,
                        "TIE-2"
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
    fn tie_3_further_connections_follow_the_first() {
        let tie_break = TieBreak::new(LOW);
        assert_eq!(
            tie_break.reply_to(HIGH, Purpose::Data, 1),
            HelloReply::NotExpected
        );
        assert_eq!(
            tie_break.reply_to(HIGH, Purpose::Data, 0),
            HelloReply::Welcome
        );
        assert_eq!(
            tie_break.reply_to(HIGH, Purpose::Data, 1),
            HelloReply::Welcome
        );
        assert_eq!(
            tie_break.reply_to(HIGH, Purpose::Data, 0),
            HelloReply::NotExpected
        );
        assert!(!tie_break.begin(HIGH, Purpose::Data));
        assert!(tie_break.begin(HIGH, Purpose::Control), "lanes are apart");
    }
}
