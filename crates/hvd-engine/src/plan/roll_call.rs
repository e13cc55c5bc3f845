//! Who has called for the next operation of a plan.
//!
//! Among few ranks everybody tells everybody, so that one message's time is enough, and small
//! tensors travel along. Among many, a rank tells the one after it; whoever has heard of the ranks
//! before it tells the one two, four, eight places after it, until each has heard of all: as many
//! messages per rank as the number of ranks has binary digits.

use std::collections::VecDeque;

use hvd_types::Rank;
use hvd_wire::ReadyNotice;

/// Up to so many ranks tell each other directly.
const FEW_RANKS: usize = 8;

/// The notes that have arrived.
#[derive(Debug)]
pub(crate) struct RollCall {
    me: usize,
    size: usize,
    /// Whom notes are exchanged with, ascending.
    partners: Vec<Rank>,
    /// By partner, in the order in which they were sent.
    heard: Vec<VecDeque<ReadyNotice>>,
    /// Rounds in which this rank has been told of others, among many ranks.
    rounds: u32,
}

/// How a roll call stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Somebody has not called yet.
    Waiting(Rank),
    /// This rank now tells another one.
    Tell(Rank),
    /// Everybody has called.
    Complete,
}

impl RollCall {
    pub(crate) fn new(me: Rank, size: usize) -> Self {
        let mut this = Self {
            me: me.index(),
            size,
            partners: Vec::new(),
            heard: Vec::new(),
            rounds: 0,
        };
        this.partners = this.find_partners();
        this.heard.resize_with(this.partners.len(), VecDeque::new);
        this
    }

    /// Whether tensors can travel with the notes.
    pub(crate) fn carries_tensors(&self) -> bool {
        self.size <= FEW_RANKS
    }

    /// The ranks with which notes are exchanged, ascending.
    pub(crate) fn partners(&self) -> &[Rank] {
        &self.partners
    }

    fn find_partners(&self) -> Vec<Rank> {
        if self.carries_tensors() {
            return self.others().collect();
        }
        let distances = (0..self.last_round()).map(|round| 1 << round);
        let mut partners: Vec<Rank> = distances
            .flat_map(|distance| [self.after(distance), self.before(distance)])
            .collect();
        partners.sort_unstable();
        partners.dedup();
        partners
    }

    /// Whom to tell when this rank calls.
    pub(crate) fn first_told(&mut self) -> Vec<Rank> {
        self.rounds = 0;
        if self.carries_tensors() {
            self.others().collect()
        } else {
            vec![self.after(1)]
        }
    }

    /// A note has arrived.
    pub(crate) fn hear(&mut self, from: Rank, note: ReadyNotice) {
        if let Ok(place) = self.partners.binary_search(&from) {
            self.heard[place].push_back(note);
        }
    }

    /// What is to be done next for an operation of a plan that this rank has called for.
    pub(crate) fn step(&mut self, schedule: u64, operation: u64) -> Step {
        if self.carries_tensors() {
            let missing = (0..self.partners.len())
                .find(|&place| !self.has_called(place, schedule, operation));
            return missing.map_or(Step::Complete, |place| Step::Waiting(self.partners[place]));
        }
        if self.rounds == self.last_round() {
            return Step::Complete;
        }
        let from = self.before(1 << self.rounds);
        let place = self.partners.binary_search(&from).unwrap_or_default();
        if !self.has_called(place, schedule, operation) {
            return Step::Waiting(from);
        }
        self.heard[place].pop_front();
        self.rounds += 1;
        if self.rounds == self.last_round() {
            return Step::Complete;
        }
        Step::Tell(self.after(1 << self.rounds))
    }

    /// The tensors that came with the notes of a complete roll call, by rank; this rank's place is
    /// empty.
    pub(crate) fn take_tensors(&mut self) -> Vec<Vec<u8>> {
        if !self.carries_tensors() {
            return Vec::new();
        }
        let taken = self.heard.iter_mut().map(VecDeque::pop_front);
        let mut tensors: Vec<Vec<u8>> = taken
            .map(|note| note.map(|note| note.tensors).unwrap_or_default())
            .collect();
        tensors.insert(self.me.min(tensors.len()), Vec::new());
        tensors
    }

    /// Whether a partner's note is there. Older ones are of plans that have ended.
    fn has_called(&mut self, place: usize, schedule: u64, operation: u64) -> bool {
        let notes = &mut self.heard[place];
        while let Some(note) = notes.front() {
            if (note.schedule, note.operation) >= (schedule, operation) {
                return (note.schedule, note.operation) == (schedule, operation);
            }
            notes.pop_front();
        }
        false
    }

    /// Rounds until all have heard of all.
    fn last_round(&self) -> u32 {
        self.size.next_power_of_two().ilog2()
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let me = self.me;
        (0..self.size)
            .filter(move |&rank| rank != me)
            .map(Rank::from_index)
    }

    fn after(&self, distance: usize) -> Rank {
        Rank::from_index((self.me + distance) % self.size)
    }

    fn before(&self, distance: usize) -> Rank {
        Rank::from_index((self.me + self.size - distance % self.size) % self.size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn note(operation: u64) -> ReadyNotice {
        ReadyNotice {
            schedule: 1,
            operation,
            tensors: Vec::new(),
        }
    }

    /// Ranks call in some order, with messages delivered as they are sent; returns how many had
    /// completed before the last one called.
    fn early(size: usize, order: &[usize], operation: u64, calls: &mut [RollCall]) -> usize {
        let mut done = vec![false; size];
        let mut called = vec![false; size];
        let mut early = 0;
        for (position, &rank) in order.iter().enumerate() {
            called[rank] = true;
            for peer in calls[rank].first_told() {
                calls[peer.index()].hear(Rank::from_index(rank), note(operation));
            }
            let mut moved = true;
            while std::mem::take(&mut moved) {
                for rank in (0..size).filter(|&rank| called[rank]) {
                    if done[rank] {
                        continue;
                    }
                    match calls[rank].step(1, operation) {
                        Step::Waiting(_) => {}
                        Step::Tell(peer) => {
                            moved = true;
                            calls[peer.index()].hear(Rank::from_index(rank), note(operation));
                        }
                        Step::Complete => {
                            moved = true;
                            done[rank] = true;
                            calls[rank].take_tensors();
                        }
                    }
                }
            }
            if position + 1 < size {
                early += done.iter().filter(|&&done| done).count();
            }
        }
        assert!(done.iter().all(|&done| done), "{size} ranks, {order:?}");
        early
    }

    proptest! {
        #[test]
        fn all_complete_when_all_have_called_and_none_before(
            (size, order) in (1_usize..40).prop_flat_map(|size| {
                (Just(size), Just((0..size).collect::<Vec<_>>()).prop_shuffle())
            })
        ) {
            let mut calls: Vec<RollCall> = (0..size)
                .map(|rank| RollCall::new(Rank::from_index(rank), size))
                .collect();
            for operation in 0..3 {
                prop_assert_eq!(early(size, &order, operation, &mut calls), 0);
            }
        }
    }

    #[test]
    fn notes_of_an_ended_plan_are_dropped_and_those_of_the_next_kept() {
        let mut call = RollCall::new(Rank::new(0), 2);
        let other = Rank::new(1);
        call.hear(other, note(7));
        call.hear(
            other,
            ReadyNotice {
                schedule: 2,
                ..note(0)
            },
        );
        assert_eq!(call.step(1, 8), Step::Waiting(other));
        assert_eq!(call.step(2, 0), Step::Complete);
    }

    #[test]
    fn many_ranks_have_few_partners() {
        let call = RollCall::new(Rank::new(3), 1024);
        assert_eq!(call.partners().len(), 19);
        assert_eq!(RollCall::new(Rank::new(3), 4).partners().len(), 3);
    }
}
