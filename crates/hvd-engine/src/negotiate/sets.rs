//! Agreement on which process sets there are.
//!
//! Adding and removing a set is collective over all ranks of the job, members or not. Every rank
//! asks for its changes in its own order; the first changes of all ranks are compared with each
//! other, then the second ones, and so on. A pure machine, part of rank 0's negotiation.
//!
//! - `SET-1` numbers count up from 1; the numbers of removed sets are given again, oldest first.
//! - `SET-2` no two sets have the same members.

use std::collections::{BTreeMap, VecDeque};

use hvd_types::{ProcessSetId, Rank, Topology};
use hvd_wire::{SetChange, SetChangeResult};

use super::validate::Party;

/// The process sets of a job and the changes that ranks have asked for.
#[derive(Debug)]
pub(crate) struct SetNegotiation {
    sets: BTreeMap<ProcessSetId, Vec<Rank>>,
    free: VecDeque<ProcessSetId>,
    next: u32,
    /// By rank, in the order in which it asked.
    requested: Vec<VecDeque<SetChange>>,
}

impl SetNegotiation {
    /// A job of `size` ranks with only the global set.
    pub(crate) fn new(size: usize) -> Self {
        let members = (0..size).map(Rank::from_index).collect();
        Self {
            sets: BTreeMap::from([(ProcessSetId::GLOBAL, members)]),
            free: VecDeque::new(),
            next: 1,
            requested: vec![VecDeque::new(); size],
        }
    }

    /// Takes in what a rank asks for.
    pub(crate) fn receive(&mut self, rank: Rank, changes: Vec<SetChange>) {
        self.requested[rank.index()].extend(changes);
    }

    /// Judges the changes that every rank has asked for.
    pub(crate) fn decide(&mut self, topology: &Topology) -> Vec<SetChangeResult> {
        let mut results = Vec::new();
        while self.requested.iter().all(|queue| !queue.is_empty()) {
            let changes: Vec<SetChange> = self
                .requested
                .iter_mut()
                .filter_map(VecDeque::pop_front)
                .collect();
            results.push(match disagreement(&changes, topology) {
                Some(reason) => SetChangeResult::Refused(reason),
                None => self.apply(&changes[0]),
            });
        }
        results
    }

    fn apply(&mut self, change: &SetChange) -> SetChangeResult {
        let result = match change {
            SetChange::Add(ranks) => self.add(ranks),
            SetChange::Remove(id) => self.remove(*id),
        };
        result.unwrap_or_else(SetChangeResult::Refused)
    }

    fn add(&mut self, ranks: &[Rank]) -> Result<SetChangeResult, String> {
        let size = self.requested.len();
        let list = Members(ranks);
        if ranks.is_empty() || !ranks.is_sorted_by(|a, b| a < b) {
            return Err(format!("process set {list} is empty or names a rank twice"));
        }
        if let Some(stranger) = ranks.iter().find(|rank| rank.index() >= size) {
            return Err(format!(
                "process set {list} names rank {stranger}, but the job has only {size} ranks"
            ));
        }
        if let Some((id, _)) = self.sets.iter().find(|(_, members)| *members == ranks) {
            return Err(format!(
                "a process set with ranks {list} already exists: number {id}"
            ));
        }
        let id = self.free.pop_front().unwrap_or_else(|| {
            self.next += 1;
            ProcessSetId::new(self.next - 1)
        });
        self.sets.insert(id, ranks.to_vec());
        let ranks = ranks.to_vec();
        Ok(SetChangeResult::Added { id, ranks })
    }

    fn remove(&mut self, id: ProcessSetId) -> Result<SetChangeResult, String> {
        if id == ProcessSetId::GLOBAL {
            return Err("the global process set cannot be removed".to_owned());
        }
        if self.sets.remove(&id).is_none() {
            return Err(format!("process set {id} does not exist"));
        }
        self.free.push_back(id);
        Ok(SetChangeResult::Removed(id))
    }
}

/// What does not agree between ranks that all asked for some change.
fn disagreement(changes: &[SetChange], topology: &Topology) -> Option<String> {
    let other = changes.iter().position(|change| *change != changes[0])?;
    let party = |index: usize| {
        let rank = Rank::from_index(index);
        let host = topology.host_name(rank).to_owned();
        Party { rank, host }
    };
    Some(format!(
        "ranks do not agree on the process sets: {} wants to {}, {} wants to {}",
        party(0),
        describe(&changes[0]),
        party(other),
        describe(&changes[other])
    ))
}

fn describe(change: &SetChange) -> String {
    match change {
        SetChange::Add(ranks) => format!("add ranks {}", Members(ranks)),
        SetChange::Remove(id) => format!("remove number {id}"),
    }
}

/// Ranks as texts show them: `[0, 2]`.
struct Members<'a>(&'a [Rank]);

impl std::fmt::Display for Members<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|rank| rank.number()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(numbers: &[u32]) -> Vec<Rank> {
        numbers.iter().copied().map(Rank::new).collect()
    }

    /// All three ranks ask for the same change.
    fn ask(negotiation: &mut SetNegotiation, change: &SetChange) -> SetChangeResult {
        for rank in 0..3 {
            negotiation.receive(Rank::new(rank), vec![change.clone()]);
        }
        let mut results = negotiation.decide(&Topology::new(["a", "b", "c"]));
        assert_eq!(results.len(), 1);
        results.remove(0)
    }

    fn add(negotiation: &mut SetNegotiation, numbers: &[u32]) -> SetChangeResult {
        ask(negotiation, &SetChange::Add(ranks(numbers)))
    }

    fn refusal(result: SetChangeResult) -> String {
        match result {
            SetChangeResult::Refused(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn set_1_numbers_count_up_and_are_given_again_oldest_first() {
        let mut sets = SetNegotiation::new(3);
        let added = |id, numbers: &[u32]| SetChangeResult::Added {
            id: ProcessSetId::new(id),
            ranks: ranks(numbers),
        };
        assert_eq!(add(&mut sets, &[0]), added(1, &[0]));
        assert_eq!(add(&mut sets, &[1, 2]), added(2, &[1, 2]));
        for id in [2, 1] {
            let id = ProcessSetId::new(id);
            assert_eq!(
                ask(&mut sets, &SetChange::Remove(id)),
                SetChangeResult::Removed(id)
            );
        }
        assert_eq!(add(&mut sets, &[0, 2]), added(2, &[0, 2]));
        assert_eq!(add(&mut sets, &[1]), added(1, &[1]));
        assert_eq!(add(&mut sets, &[2]), added(3, &[2]));
    }

    #[test]
    fn set_2_a_set_that_exists_is_refused() {
        let mut sets = SetNegotiation::new(3);
        assert_eq!(
            refusal(add(&mut sets, &[0, 1, 2])),
            "a process set with ranks [0, 1, 2] already exists: number 0"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut sets = SetNegotiation::new(3);
        assert!(refusal(add(&mut sets, &[])).contains("is empty"));
        assert!(refusal(add(&mut sets, &[1, 1])).contains("[1, 1] is empty or names a rank twice"));
        assert_eq!(
            refusal(add(&mut sets, &[1, 3])),
            "process set [1, 3] names rank 3, but the job has only 3 ranks"
        );
        let unknown = SetChange::Remove(ProcessSetId::new(7));
        assert_eq!(
            refusal(ask(&mut sets, &unknown)),
            "process set 7 does not exist"
        );
        let global = SetChange::Remove(ProcessSetId::GLOBAL);
        assert_eq!(
            refusal(ask(&mut sets, &global)),
            "the global process set cannot be removed"
        );
    }

    #[test]
    fn nothing_happens_until_every_rank_asked_and_they_must_agree() {
        let mut sets = SetNegotiation::new(3);
        let topology = Topology::new(["a", "b", "c"]);
        sets.receive(
            Rank::new(0),
            vec![SetChange::Add(ranks(&[0])), SetChange::Add(ranks(&[1]))],
        );
        sets.receive(Rank::new(1), vec![SetChange::Add(ranks(&[0]))]);
        assert_eq!(sets.decide(&topology), []);
        sets.receive(Rank::new(2), vec![SetChange::Remove(ProcessSetId::new(4))]);
        assert_eq!(
            refusal(sets.decide(&topology).remove(0)),
            "ranks do not agree on the process sets: rank 0 on host `a` wants to add ranks [0], \
             rank 2 on host `c` wants to remove number 4"
        );
    }
}
