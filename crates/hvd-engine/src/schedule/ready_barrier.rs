//! Which ranks have called for the next operation of a schedule.
//!
//! Among few ranks each one notifies all others, so that the latency of one message is enough, and
//! small tensors travel along. Among many it is a dissemination barrier: a rank notifies the one
//! after it; in each further round, when the notice for that round has arrived, the one two, four,
//! eight places after it: as many messages per rank as the number of ranks has binary digits.

use std::collections::VecDeque;

use hvd_types::Rank;
use hvd_wire::ReadyNotice;

/// Up to so many ranks notify each other directly.
const FEW_RANKS: usize = 8;

/// The notices that have arrived.
#[derive(Debug)]
pub struct ReadyBarrier {
    me: usize,
    size: usize,
    /// Whom notices are exchanged with, ascending.
    partners: Vec<Rank>,
    /// By partner, in the order in which they were sent.
    arrived: Vec<VecDeque<ReadyNotice>>,
    /// Rounds whose notice has arrived, among many ranks.
    rounds: u32,
}

/// The state of a ready barrier.
#[derive(Debug, PartialEq, Eq)]
pub enum BarrierStep {
    /// The notice of this rank has not arrived.
    Waiting(Rank),
    /// This rank now notifies another one.
    Notify(Rank),
    /// All ranks have called.
    Complete,
}

impl ReadyBarrier {
    /// The barrier of rank `me` in a job of `size` ranks.
    pub fn new(me: Rank, size: usize) -> Self {
        let mut this = Self {
            me: me.index(),
            size,
            partners: Vec::new(),
            arrived: Vec::new(),
            rounds: 0,
        };
        this.partners = this.find_partners();
        this.arrived.resize_with(this.partners.len(), VecDeque::new);
        this
    }

    /// Whether tensors can travel with the notices.
    pub(crate) fn carries_tensors(&self) -> bool {
        self.size <= FEW_RANKS
    }

    /// The ranks with which notices are exchanged, ascending.
    pub fn partners(&self) -> &[Rank] {
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

    /// Whom to notify when this rank calls.
    pub fn first_notified(&mut self) -> &[Rank] {
        self.rounds = 0;
        if self.carries_tensors() {
            return &self.partners;
        }
        let place = self.partners.binary_search(&self.after(1));
        let place = place.unwrap_or_default();
        &self.partners[place..=place]
    }

    /// A notice has arrived.
    pub fn receive(&mut self, from: Rank, notice: ReadyNotice) {
        if let Ok(place) = self.partners.binary_search(&from) {
            self.arrived[place].push_back(notice);
        }
    }

    /// What is to be done next for an operation of a schedule that this rank has called for.
    pub fn step(&mut self, schedule: u64, operation: u64) -> BarrierStep {
        if self.carries_tensors() {
            let missing = (0..self.partners.len())
                .find(|&place| !self.has_called(place, schedule, operation));
            return missing.map_or(BarrierStep::Complete, |place| {
                BarrierStep::Waiting(self.partners[place])
            });
        }
        if self.rounds == self.last_round() {
            return BarrierStep::Complete;
        }
        let from = self.before(1 << self.rounds);
        let place = self.partners.binary_search(&from).unwrap_or_default();
        if !self.has_called(place, schedule, operation) {
            return BarrierStep::Waiting(from);
        }
        self.arrived[place].pop_front();
        self.rounds += 1;
        if self.rounds == self.last_round() {
            return BarrierStep::Complete;
        }
        BarrierStep::Notify(self.after(1 << self.rounds))
    }

    /// The tensors that came with the notices of a complete ready barrier, by rank; this rank's
    /// place is empty.
    pub(crate) fn take_tensors(&mut self) -> Vec<Vec<u8>> {
        if !self.carries_tensors() {
            return Vec::new();
        }
        let taken = self.arrived.iter_mut().map(VecDeque::pop_front);
        let mut tensors: Vec<Vec<u8>> = taken
            .map(|notice| notice.map(|notice| notice.tensors).unwrap_or_default())
            .collect();
        tensors.insert(self.me.min(tensors.len()), Vec::new());
        tensors
    }

    /// Whether a partner's notice is there. Older ones are of schedules that have ended.
    fn has_called(&mut self, place: usize, schedule: u64, operation: u64) -> bool {
        let notices = &mut self.arrived[place];
        while let Some(notice) = notices.front() {
            if (notice.schedule, notice.operation) >= (schedule, operation) {
                return (notice.schedule, notice.operation) == (schedule, operation);
            }
            notices.pop_front();
        }
        false
    }

    /// Rounds until every rank knows that all have called.
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

    fn notice(operation: u64) -> ReadyNotice {
        ReadyNotice {
            schedule: 1,
            operation,
            tensors: Vec::new(),
        }
    }

    /// Ranks call in some order, with messages delivered as they are sent; returns how many had
    /// completed before the last one called.
    fn early(size: usize, order: &[usize], operation: u64, calls: &mut [ReadyBarrier]) -> usize {
        let mut done = vec![false; size];
        let mut called = vec![false; size];
        let mut early = 0;
        for (position, &rank) in order.iter().enumerate() {
            called[rank] = true;
            for peer in calls[rank].first_notified().to_vec() {
                calls[peer.index()].receive(Rank::from_index(rank), notice(operation));
            }
            let mut moved = true;
            while std::mem::take(&mut moved) {
                for rank in (0..size).filter(|&rank| called[rank]) {
                    if done[rank] {
                        continue;
                    }
                    match calls[rank].step(1, operation) {
                        BarrierStep::Waiting(_) => {}
                        BarrierStep::Notify(peer) => {
                            moved = true;
                            calls[peer.index()].receive(Rank::from_index(rank), notice(operation));
                        }
                        BarrierStep::Complete => {
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
            let mut calls: Vec<ReadyBarrier> = (0..size)
                .map(|rank| ReadyBarrier::new(Rank::from_index(rank), size))
                .collect();
            for operation in 0..3 {
                prop_assert_eq!(early(size, &order, operation, &mut calls), 0);
            }
        }
    }

    #[test]
    fn notices_of_an_ended_schedule_are_dropped_and_those_of_the_next_kept() {
        let mut call = ReadyBarrier::new(Rank::new(0), 2);
        let other = Rank::new(1);
        call.receive(other, notice(7));
        call.receive(
            other,
            ReadyNotice {
                schedule: 2,
                ..notice(0)
            },
        );
        assert_eq!(call.step(1, 8), BarrierStep::Waiting(other));
        assert_eq!(call.step(2, 0), BarrierStep::Complete);
    }

    #[test]
    fn many_ranks_have_few_partners() {
        let call = ReadyBarrier::new(Rank::new(3), 1024);
        assert_eq!(call.partners().len(), 19);
        assert_eq!(ReadyBarrier::new(Rank::new(3), 4).partners().len(), 3);
    }
}
