//! A rank between the coordinator and ranks below it: it gathers what they announce, passes it up
//! as one message, and passes response lists down.
//!
//! A pure machine like the coordinator: requests go in with [`Relay::receive_merged`] and
//! [`Relay::receive`], [`Relay::take_upward`] gives what is to be passed up now, and
//! [`Relay::route`] gives the route of a response list. The coordinator receives what it would have
//! received from each rank directly, in an order in which it could have arrived:
//!
//! - `RELAY-1` a tensor is passed up once every rank below that takes part has asked for it; ranks
//!   that asked alike are named together. The last rank to ask never waits here.
//! - `RELAY-2` a tensor that is incomplete for longer than [`HOLD`] is passed up as far as it is
//!   known, and what comes later at once; so the coordinator knows who is missing.
//! - `RELAY-3` joins, changes of process sets and shutdowns are passed up at once, after
//!   everything that the same ranks asked for before.
//! - `RELAY-4` a response list counts as read by the ranks below when all of them have read it and
//!   nothing that any of them sent before is still held here.
//! - `RELAY-5` when a schedule begins, tensors of the global set that were asked for before the
//!   schedule was known are forgotten here as on rank 0 (`SCHEDULE-3`). A rank that halts is passed
//!   up at once, or with the others if rank 0 knows already ([`halts`]).

mod halts;
mod held_requests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hvd_types::{OpKind, ProcessSetId, Rank, Ranks};
use hvd_wire::{
    MergedRequestLists, RequestList, Response, ResponseList, ScheduleCommand, SetChangeResult,
    SharedRequestList,
};

use self::halts::Halts;
use self::held_requests::HeldRequests;
use super::coordinator::{Breach, ProtocolError};
use super::tree::TreePosition;

/// How long a tensor that some ranks below have not asked for is kept from the coordinator. Long
/// against the time in which ranks finish a step one after the other, short against the time after
/// which a stall is reported.
pub(crate) const HOLD: Duration = Duration::from_millis(100);

/// What one rank holds for those below it, and where they are.
#[derive(Debug)]
pub(crate) struct Relay {
    place: TreePosition,
    /// This rank and all below it.
    below: Ranks,
    /// The process sets with members among them.
    sets: BTreeMap<ProcessSetId, HeldRequests>,
    /// What is to be passed up, in this order.
    outbox: Vec<SharedRequestList>,
    hold: Duration,
    /// The last response list on the global set that was passed on.
    routed: u64,
    /// The schedule that runs.
    schedule: Option<Halts>,
}

/// Where a response list goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResponseRoute {
    pub(crate) children: Vec<Rank>,
    /// Whether this rank has to carry it out itself.
    pub(crate) mine: bool,
}

impl Relay {
    pub(crate) fn new(place: TreePosition, hold: Duration) -> Self {
        let below = place.below();
        let global = HeldRequests::new(ProcessSetId::GLOBAL, below.clone(), &place);
        Self {
            place,
            below,
            sets: BTreeMap::from([(ProcessSetId::GLOBAL, global)]),
            outbox: Vec::new(),
            hold,
            routed: 0,
            schedule: None,
        }
    }

    /// Takes in the requests of this rank itself or of a leaf.
    pub(crate) fn receive(
        &mut self,
        rank: Rank,
        message: RequestList,
        now: Instant,
    ) -> Result<(), Breach> {
        let routed = message.seen;
        let seen = vec![(message.process_set, message.seen)];
        let lists = vec![SharedRequestList::of(rank, message)];
        let message = MergedRequestLists {
            lists,
            seen,
            routed,
        };
        self.receive_merged(rank, message, now)
    }

    /// Takes in what a child has gathered.
    pub(crate) fn receive_merged(
        &mut self,
        from: Rank,
        message: MergedRequestLists,
        now: Instant,
    ) -> Result<(), Breach> {
        let precedes_schedule = |schedule: &Halts| schedule.is_after(message.routed);
        let outdated = self.schedule.as_ref().is_some_and(precedes_schedule);
        for mut list in message.lists {
            if !self.speaks_for(from, &list.ranks) {
                let error = ProtocolError::NotBelow;
                return Err(Breach { rank: from, error });
            }
            if outdated {
                forget_global(&mut list);
            }
            self.take_in(from, list, now);
        }
        for (id, seen) in message.seen {
            if let Some(set) = self.sets.get_mut(&id) {
                set.acknowledge(from, seen);
            }
        }
        Ok(())
    }

    /// What is to be passed to the parent now, if anything.
    pub(crate) fn take_upward(&mut self, now: Instant) -> Option<MergedRequestLists> {
        for set in self.sets.values_mut() {
            set.release_overdue(self.hold, now, &mut self.outbox);
        }
        if self.outbox.is_empty() {
            return None;
        }
        let sets = self.sets.iter_mut();
        let seen = sets.filter_map(|(&id, set)| Some((id, set.newly_seen()?)));
        Some(MergedRequestLists {
            seen: seen.collect(),
            lists: std::mem::take(&mut self.outbox),
            routed: self.routed,
        })
    }

    /// When something that is held becomes overdue.
    pub(crate) fn due(&self) -> Option<Instant> {
        let oldest = self.sets.values().filter_map(HeldRequests::oldest).min()?;
        oldest.checked_add(self.hold)
    }

    /// Takes in a response list and returns its route. Children get it before this rank begins to
    /// carry it out.
    pub(crate) fn route(&mut self, response_list: &ResponseList) -> ResponseRoute {
        let route = match self.sets.get_mut(&response_list.process_set) {
            Some(set) => {
                set.learn(response_list);
                let members = set.members();
                let children = self.place.children.iter();
                let concerned =
                    children.filter(|child| child.below.first_common(members).is_some());
                ResponseRoute {
                    children: concerned.map(|child| child.rank).collect(),
                    mine: members.contains(self.place.rank),
                }
            }
            None => ResponseRoute {
                children: Vec::new(),
                mine: false,
            },
        };
        if response_list.process_set == ProcessSetId::GLOBAL {
            self.routed = response_list.sequence;
            self.follow_schedule(response_list);
        }
        for change in &response_list.changes {
            self.follow(change);
        }
        route
    }

    fn follow_schedule(&mut self, response_list: &ResponseList) {
        match &response_list.schedule {
            Some(ScheduleCommand::Begin(schedule)) => {
                self.schedule = Some(Halts::new(schedule.number, response_list.sequence));
                if let Some(global) = self.sets.get_mut(&ProcessSetId::GLOBAL) {
                    global.forget_tensors();
                }
                self.outbox.iter_mut().for_each(forget_global);
                self.outbox.retain(says_something);
            }
            Some(ScheduleCommand::End { .. }) => self.schedule = None,
            Some(ScheduleCommand::Halt(_)) | None => {}
        }
    }

    fn follow(&mut self, change: &SetChangeResult) {
        match change {
            SetChangeResult::Added { id, ranks } => {
                let members = ranks.iter().filter(|rank| self.below.contains(**rank));
                let members: Ranks = members.copied().collect();
                if !members.is_empty() {
                    self.sets
                        .insert(*id, HeldRequests::new(*id, members, &self.place));
                }
            }
            // The coordinator would ignore whatever is still held for it.
            SetChangeResult::Removed(id) => {
                self.sets.remove(id);
            }
            SetChangeResult::Refused(_) => {}
        }
    }

    fn speaks_for(&self, speaker: Rank, ranks: &Ranks) -> bool {
        let mut children = self.place.children.iter();
        match children.find(|child| child.rank == speaker) {
            Some(child) => ranks.common(&child.below) == ranks.len(),
            None => speaker == self.place.rank && *ranks == Ranks::one(speaker),
        }
    }

    fn take_in(&mut self, from: Rank, mut list: SharedRequestList, now: Instant) {
        if let Some(halted) = list.halted.take() {
            let halted = match &mut self.schedule {
                Some(schedule) => schedule.take_in(&list.ranks, halted, &self.below),
                None => Some(halts::halt(list.ranks.clone(), halted)),
            };
            self.outbox.extend(halted);
        }
        let control = SharedRequestList {
            process_set: list.process_set,
            ranks: list.ranks.clone(),
            changes: std::mem::take(&mut list.changes),
            shutdown: std::mem::take(&mut list.shutdown),
            ..SharedRequestList::default()
        };
        match self.sets.get_mut(&list.process_set) {
            Some(set) => set.take_in(from, list, now, &mut self.outbox),
            // Late requests in a set that was removed: the coordinator drops them.
            None if list.has_requests() => self.outbox.push(list),
            None => {}
        }
        if control.shutdown || !control.changes.is_empty() {
            for set in self.sets.values_mut() {
                set.release_what_these_asked(&control.ranks, &mut self.outbox);
            }
            append(&mut self.outbox, control);
        }
    }
}

/// Appends a part, merged with the one before it if that has the same content for other ranks.
fn append(outbox: &mut Vec<SharedRequestList>, list: SharedRequestList) {
    if let Some(last) = outbox.last_mut()
        && last.process_set == list.process_set
        && last.ranks.first_common(&list.ranks).is_none()
        && (last.shutdown, &last.changes, last.halted)
            == (list.shutdown, &list.changes, list.halted)
        && (&last.cached, &last.requests) == (&list.cached, &list.requests)
    {
        last.ranks.insert_all(&list.ranks);
        return;
    }
    outbox.push(list);
}

/// Takes out what is asked for in the global set.
fn forget_global(list: &mut SharedRequestList) {
    if list.process_set == ProcessSetId::GLOBAL {
        list.cached.clear();
        list.requests.clear();
    }
}

fn says_something(list: &SharedRequestList) -> bool {
    list.has_requests() || list.shutdown || !list.changes.is_empty() || list.halted.is_some()
}

/// Whether more may be added to what a part asks for: nothing is asked for after a join, a change
/// or the end in the same message.
fn is_open(list: &SharedRequestList) -> bool {
    let last = list.requests.last();
    let joins = last.is_some_and(|shared| shared.request.kind == OpKind::Join);
    list.changes.is_empty() && !list.shutdown && list.halted.is_none() && !joins
}

/// Whether a response list ends a join.
fn ends_join(response_list: &ResponseList) -> bool {
    let mut responses = response_list.responses.iter();
    responses.any(|response| matches!(response, Response::Joined { .. }))
}

#[cfg(test)]
mod tests;
