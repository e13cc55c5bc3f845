//! The process sets as one rank's cycle works with them: what the rank has in flight in each set it
//! is a member of, and the changes of sets that callers wait for. Keeps the registry that callers
//! read in step.
//!
//! It turns submissions into announcements, one [`RequestList`] per set. It sends nothing and knows
//! neither the negotiation nor schedules.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hvd_types::{ProcessSetId, Rank, Topology};
use hvd_wire::{RequestList, SetChangeResult};

use crate::execute::team::Team;
use crate::handle::{Completer, OperationOutput};
use crate::local_set::LocalSet;
use crate::process_set::ProcessSets;
use crate::queue::BoxedEntry;
use crate::submissions::Submissions;
use crate::{Error, Result};

/// What a rank has to announce, by process set.
pub(crate) type Announcements = BTreeMap<ProcessSetId, RequestList>;

/// The process sets of one rank.
#[derive(Debug)]
pub(crate) struct ProcessSetTable {
    rank: Rank,
    /// The sets this rank is a member of.
    sets: BTreeMap<ProcessSetId, LocalSet>,
    /// All process sets, as callers see them.
    registry: Arc<ProcessSets>,
    /// The host of every rank.
    topology: Topology,
    /// Callers that wait for changes, in the order in which they asked for them.
    changes: VecDeque<Completer>,
}

impl ProcessSetTable {
    /// The table of a rank that is a member of the global set only.
    pub(crate) fn new(rank: Rank, registry: Arc<ProcessSets>, topology: Topology) -> Self {
        let id = ProcessSetId::GLOBAL;
        let members = registry.members(id);
        let global = members.map(|members| (id, LocalSet::new(id, Team::new(members, &topology))));
        Self {
            rank,
            sets: global.into_iter().collect(),
            registry,
            topology,
            changes: VecDeque::new(),
        }
    }

    pub(crate) fn get(&self, id: ProcessSetId) -> Option<&LocalSet> {
        self.sets.get(&id)
    }

    /// A set that a response list names; an error if this rank is not a member.
    pub(crate) fn member_of(&mut self, id: ProcessSetId) -> Result<&mut LocalSet> {
        let stranger = || {
            Error::Internal(format!(
                "got a response list for process set {id}, of which this rank is no member"
            ))
        };
        self.sets.get_mut(&id).ok_or_else(stranger)
    }

    /// The global set.
    pub(crate) fn global(&mut self) -> Result<&mut LocalSet> {
        self.member_of(ProcessSetId::GLOBAL)
    }

    /// Whether anything is pending in the global set.
    pub(crate) fn global_has_pending(&self) -> bool {
        let global = self.sets.get(&ProcessSetId::GLOBAL);
        global.is_some_and(LocalSet::has_pending)
    }

    /// Whether anything is pending in a set other than the global one.
    pub(crate) fn others_have_pending(&self) -> bool {
        let mut sets = self.sets.iter();
        sets.any(|(&id, set)| id != ProcessSetId::GLOBAL && set.has_pending())
    }

    /// Whether anything is in flight: an operation, or a change of sets.
    pub(crate) fn is_engaged(&self) -> bool {
        let pending = self.sets.values().any(LocalSet::has_pending);
        pending || !self.changes.is_empty()
    }

    /// Takes submissions in and returns what there is to announce.
    pub(crate) fn announce(&mut self, submissions: Submissions) -> Announcements {
        self.add_to(Announcements::new(), submissions)
    }

    /// As [`Self::announce`], after a schedule: everything still pending in the global set is
    /// announced before the submissions that were deferred.
    pub(crate) fn announce_pending(&mut self, deferred: Submissions) -> Result<Announcements> {
        let mut announcements = Announcements::new();
        let global = self.global()?;
        if global.has_pending() {
            let mut message = global.announcement();
            global.announce_pending(&mut message);
            announcements.insert(ProcessSetId::GLOBAL, message);
        }
        Ok(self.add_to(announcements, deferred))
    }

    fn add_to(
        &mut self,
        mut announcements: Announcements,
        Submissions {
            entries,
            changes,
            shutdown,
        }: Submissions,
    ) -> Announcements {
        for entry in entries {
            self.add_entry(entry, &mut announcements);
        }
        if shutdown || !changes.is_empty() {
            let id = ProcessSetId::GLOBAL;
            let global = announcements.entry(id).or_insert_with(|| {
                let set = self.sets.get(&id);
                set.map_or_else(RequestList::default, LocalSet::announcement)
            });
            global.shutdown = shutdown;
            global.changes = changes;
        }
        announcements
    }

    fn add_entry(&mut self, entry: BoxedEntry, announcements: &mut Announcements) {
        let id = entry.process_set;
        match self.sets.get_mut(&id) {
            Some(set) => {
                let message = announcements
                    .entry(id)
                    .or_insert_with(|| set.announcement());
                set.announce(entry, message);
            }
            // Removed between the caller's check and now.
            None => entry.complete(Err(Error::Removed(id))),
        }
    }

    /// Keeps a caller that waits for a change until [`Self::apply`] is called for it.
    pub(crate) fn await_change(&mut self, completer: Completer) {
        self.changes.push_back(completer);
    }

    /// Applies a change that all ranks agreed on, and completes the caller that asked for it.
    /// Everything pending in a set that is removed fails; `release` frees its names first.
    pub(crate) fn apply(
        &mut self,
        change: SetChangeResult,
        mut release: impl FnMut(ProcessSetId, &Arc<str>),
    ) {
        let result = match change {
            SetChangeResult::Added { id, ranks } => {
                let members: Arc<[Rank]> = ranks.into();
                if members.contains(&self.rank) {
                    let team = Team::new(Arc::clone(&members), &self.topology);
                    self.sets.insert(id, LocalSet::new(id, team));
                }
                self.registry.insert(id, members);
                Ok(OperationOutput::numbered(id.number()))
            }
            SetChangeResult::Removed(id) => {
                self.registry.remove(id);
                let removed = self.sets.remove(&id).into_iter();
                for entry in removed.flat_map(LocalSet::into_pending) {
                    release(id, &entry.request.name);
                    entry.complete(Err(Error::Removed(id)));
                }
                Ok(OperationOutput::numbered(id.number()))
            }
            SetChangeResult::Refused(reason) => Err(Error::ProcessSet(reason)),
        };
        if let Some(completer) = self.changes.pop_front() {
            completer.complete(result);
        }
    }

    /// Everything in flight, at the end of the engine: operations, and callers that wait for a
    /// change.
    pub(crate) fn into_pending(self) -> (impl Iterator<Item = BoxedEntry>, VecDeque<Completer>) {
        let pending = self.sets.into_values().flat_map(LocalSet::into_pending);
        (pending, self.changes)
    }
}

#[cfg(test)]
mod tests;
