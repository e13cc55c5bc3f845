//! Rank 0's whole negotiation: one [`Coordinator`] per process set, and the agreement on the sets
//! themselves.
//!
//! Rank 0 coordinates every set, also those it is no member of. It decides about all of them in one
//! order, and every rank gets its part of that order; so ranks that share several sets never wait
//! for each other crosswise, and sets without common ranks run at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use hvd_types::{ProcessSetId, Rank, Ranks};
use hvd_wire::{MergedRequestLists, RequestList, ResponseList, SetChangeResult};

use super::coordinator::{Breach, Coordinator, CoordinatorOptions, ProtocolError};
use super::sets::SetNegotiation;
use crate::autotune::{Autotuner, Parameters};
use crate::stall::StallReport;

/// The negotiation of all process sets.
#[derive(Debug)]
pub(crate) struct Hub {
    options: Arc<CoordinatorOptions>,
    coordinators: BTreeMap<ProcessSetId, Coordinator>,
    sets: SetNegotiation,
    /// The rank that asked for the shutdown first.
    shutdown: Option<Rank>,
    /// Whether something was asked for that a schedule has no place for.
    disturbed: bool,
}

/// A response list and the ranks it is for.
#[derive(Debug, PartialEq)]
pub(crate) struct AddressedResponses {
    /// As they were when it was decided: the same round may remove the set.
    pub(crate) members: Arc<[Rank]>,
    pub(crate) response_list: ResponseList,
}

impl Hub {
    pub(crate) fn new(options: CoordinatorOptions) -> Self {
        let options = Arc::new(options);
        let size = options.topology.size();
        let members = (0..size).map(Rank::from_index).collect();
        let global = Coordinator::new(ProcessSetId::GLOBAL, members, Arc::clone(&options));
        Self {
            coordinators: BTreeMap::from([(ProcessSetId::GLOBAL, global)]),
            sets: SetNegotiation::new(size),
            options,
            shutdown: None,
            disturbed: false,
        }
    }

    /// Tunes the job by what the global set does. All ranks are in it, so they learn of a change at
    /// the same point of their order.
    pub(crate) fn autotune(&mut self, autotuner: Autotuner) {
        if let Some(global) = self.coordinators.get_mut(&ProcessSetId::GLOBAL) {
            global.autotune(autotuner);
        }
    }

    /// Takes in a rank's request list.
    pub(crate) fn receive(
        &mut self,
        rank: Rank,
        mut message: RequestList,
        now: Instant,
    ) -> Result<(), ProtocolError> {
        if message.shutdown {
            self.shutdown.get_or_insert(rank);
        }
        self.disturbed |= message.shutdown
            || !message.changes.is_empty()
            || message.process_set != ProcessSetId::GLOBAL;
        self.sets
            .receive(rank, std::mem::take(&mut message.changes));
        match self.coordinators.get_mut(&message.process_set) {
            Some(coordinator) => coordinator.receive(rank, message, now),
            // The set was removed while this was on its way. Its number cannot have been given
            // again: that takes a request of this very rank, which would be behind this message.
            None => Ok(()),
        }
    }

    /// Takes in the merged requests of the ranks below a relay; `below` are all of them.
    pub(crate) fn receive_merged(
        &mut self,
        below: &Ranks,
        message: MergedRequestLists,
        now: Instant,
    ) -> Result<(), Breach> {
        let rank = below.first().unwrap_or_default();
        for mut list in message.lists {
            if list.ranks.common(below) != list.ranks.len() {
                let error = ProtocolError::NotBelow;
                return Err(Breach { rank, error });
            }
            if list.shutdown
                && let Some(first) = list.ranks.first()
            {
                self.shutdown.get_or_insert(first);
            }
            self.disturbed |= list.shutdown
                || !list.changes.is_empty()
                || list.process_set != ProcessSetId::GLOBAL;
            let changes = std::mem::take(&mut list.changes);
            for rank in list.ranks.iter().filter(|_| !changes.is_empty()) {
                self.sets.receive(rank, changes.clone());
            }
            if let Some(coordinator) = self.coordinators.get_mut(&list.process_set) {
                coordinator.receive_shared(list, message.routed, now)?;
            }
        }
        for (id, seen) in message.seen {
            if let Some(coordinator) = self.coordinators.get_mut(&id) {
                coordinator.acknowledge(below, seen);
            }
        }
        Ok(())
    }

    /// The response lists that are due, in the order in which every rank gets them.
    pub(crate) fn decide(&mut self, now: Instant) -> Vec<AddressedResponses> {
        let mut response_lists: Vec<AddressedResponses> = Vec::new();
        if let Some(global) = self.coordinators.get_mut(&ProcessSetId::GLOBAL) {
            if let Some(response_list) = global.decide_schedule(self.disturbed) {
                let members = Arc::clone(global.members());
                response_lists.push(AddressedResponses {
                    members,
                    response_list,
                });
            }
            if global.has_schedule() {
                return response_lists;
            }
        }
        self.disturbed = false;
        let changes = self.sets.decide(&self.options.topology);
        let must_speak = self.shutdown.is_some() || !changes.is_empty();
        let mut retuned = false;
        for (&id, coordinator) in self.coordinators.iter_mut().rev() {
            let urgent = must_speak && id == ProcessSetId::GLOBAL;
            if let Some(response_list) = coordinator.decide(now, urgent) {
                let members = Arc::clone(coordinator.members());
                retuned |= response_list.tuned.is_some();
                response_lists.push(AddressedResponses {
                    members,
                    response_list,
                });
            }
        }
        if retuned && let Some(parameters) = self.parameters() {
            let coordinators = self.coordinators.values_mut();
            coordinators.for_each(|coordinator| coordinator.adopt(parameters));
        }
        for change in &changes {
            self.follow(change);
        }
        // The global set has the lowest number, so its response list is the last: changes of other
        // sets in it hold for everything after it.
        if must_speak && let Some(global) = response_lists.last_mut() {
            global.response_list.changes = changes;
            global.response_list.shutdown = self.shutdown;
        }
        response_lists
    }

    /// When to look for stalled tensors again.
    pub(crate) fn next_stall_check(&self) -> Option<Instant> {
        self.coordinators
            .values()
            .filter_map(Coordinator::next_stall_check)
            .min()
    }

    /// Reports about stalled tensors, by process set.
    pub(crate) fn look_for_stalls(&mut self, now: Instant) -> Vec<StallReport> {
        self.coordinators
            .values_mut()
            .filter_map(|coordinator| coordinator.look_for_stalls(now))
            .collect()
    }

    /// When a response list that is being held back becomes due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.coordinators
            .values()
            .filter_map(Coordinator::due)
            .min()
    }

    /// What the autotuner has set; it sits in the global set.
    fn parameters(&self) -> Option<Parameters> {
        self.coordinators.get(&ProcessSetId::GLOBAL)?.adopted()
    }

    fn follow(&mut self, change: &SetChangeResult) {
        match change {
            SetChangeResult::Added { id, ranks } => {
                let options = Arc::clone(&self.options);
                let mut coordinator = Coordinator::new(*id, ranks.clone(), options);
                if let Some(parameters) = self.parameters() {
                    coordinator.adopt(parameters);
                }
                self.coordinators.insert(*id, coordinator);
            }
            SetChangeResult::Removed(id) => {
                self.coordinators.remove(id);
            }
            SetChangeResult::Refused(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hvd_types::{DType, Device, OpKind, ReduceOp, Shape, Topology};
    use hvd_wire::{Request, SetChange};

    use super::*;
    use crate::autotune::AutotuneOptions;
    use crate::execute::team::Hierarchy;

    fn hub(size: usize) -> Hub {
        Hub::new(CoordinatorOptions {
            topology: Topology::new(vec!["h"; size]),
            fusion_threshold: 0,
            cache_capacity: 4,
            cycle_time: Duration::from_secs(3600),
            ..CoordinatorOptions::default()
        })
    }

    fn all_request(hub: &mut Hub, size: usize, change: &SetChange) -> Vec<AddressedResponses> {
        for rank in 0..size {
            let changes = vec![change.clone()];
            let ready = RequestList {
                changes,
                ..RequestList::default()
            };
            hub.receive(Rank::from_index(rank), ready, Instant::now())
                .unwrap();
        }
        hub.decide(Instant::now())
    }

    #[test]
    fn changes_of_sets_are_told_to_everybody_at_once() {
        let mut hub = hub(2);
        let pair = vec![Rank::new(1)];
        for _ in 0..2 {
            let response_lists = all_request(&mut hub, 2, &SetChange::Add(pair.clone()));
            let id = ProcessSetId::new(1);
            let added = SetChangeResult::Added {
                id,
                ranks: pair.clone(),
            };
            assert_eq!(response_lists.len(), 1, "no cycle time holds it back");
            assert_eq!(response_lists[0].response_list.changes, [added]);
            let response_lists = all_request(&mut hub, 2, &SetChange::Remove(id));
            assert_eq!(
                response_lists[0].response_list.changes,
                [SetChangeResult::Removed(id)]
            );
        }
    }

    #[test]
    fn a_set_that_is_removed_in_the_same_round_still_gets_its_last_response_list() {
        let mut hub = hub(2);
        let pair = vec![Rank::new(0), Rank::new(1)];
        all_request(&mut hub, 2, &SetChange::Add(vec![Rank::new(1)]));
        let id = ProcessSetId::new(1);
        let barrier = Request {
            name: "b".into(),
            kind: OpKind::Barrier,
            dtype: DType::Uint8,
            shape: Shape::new([0]),
            root: Rank::new(0),
            device: Device::Cpu,
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            group: None,
        };
        let ready = RequestList {
            process_set: id,
            requests: vec![barrier],
            ..RequestList::default()
        };
        hub.receive(Rank::new(1), ready, Instant::now()).unwrap();
        let response_lists = all_request(&mut hub, 2, &SetChange::Remove(id));
        assert_eq!(response_lists.len(), 2);
        assert_eq!(response_lists[0].response_list.process_set, id);
        assert_eq!(*response_lists[0].members, [Rank::new(1)]);
        assert_eq!(
            response_lists[1].response_list.changes,
            [SetChangeResult::Removed(id)]
        );
        assert_eq!(*response_lists[1].members, pair);
    }

    #[test]
    fn tuned_parameters_are_told_to_all_ranks_and_hold_for_all_sets() {
        let mut hub = hub(2);
        all_request(&mut hub, 2, &SetChange::Add(vec![Rank::new(1)]));
        let parameters = Parameters {
            fusion_threshold: 1 << 20,
            cycle_time: Duration::ZERO,
            chunk_bytes: 1 << 16,
            small_allreduce_bytes: 1 << 12,
            hierarchy: Hierarchy::default(),
            cache: false,
        };
        hub.autotune(Autotuner::new(&AutotuneOptions::default(), parameters));
        let leave = RequestList {
            shutdown: true,
            ..RequestList::default()
        };
        hub.receive(Rank::new(0), leave, Instant::now()).unwrap();
        let response_lists = hub.decide(Instant::now());
        let tuned = response_lists[0].response_list.tuned.unwrap();
        assert_eq!(
            response_lists[0].response_list.process_set,
            ProcessSetId::GLOBAL
        );
        assert_eq!(
            (tuned.chunk_bytes, tuned.small_allreduce_bytes),
            (1 << 16, 1 << 12)
        );
        let adopted = hub.coordinators.values().map(Coordinator::adopted);
        assert!(adopted.eq([Some(parameters); 2]));
        hub.follow(&SetChangeResult::Added {
            id: ProcessSetId::new(2),
            ranks: vec![Rank::new(0)],
        });
        let later = &hub.coordinators[&ProcessSetId::new(2)];
        assert_eq!(later.adopted(), Some(parameters));
    }

    #[test]
    fn late_words_about_a_removed_set_are_ignored() {
        let mut hub = hub(1);
        let late = RequestList {
            process_set: ProcessSetId::new(5),
            ..RequestList::default()
        };
        assert_eq!(hub.receive(Rank::new(0), late, Instant::now()), Ok(()));
        assert_eq!(hub.decide(Instant::now()), []);
    }

    #[test]
    fn shutdown_is_said_at_once_and_names_who_asked_first() {
        let mut hub = hub(3);
        for rank in [1, 2] {
            let leaving = RequestList {
                shutdown: true,
                ..RequestList::default()
            };
            hub.receive(Rank::new(rank), leaving, Instant::now())
                .unwrap();
        }
        let response_lists = hub.decide(Instant::now());
        assert_eq!(response_lists[0].response_list.shutdown, Some(Rank::new(1)));
    }
}
