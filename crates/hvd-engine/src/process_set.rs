//! Which process sets exist. The engine thread changes the list when a response list does; callers
//! on any thread look at it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hvd_types::{ProcessSetId, Rank};

/// The process sets of a job.
#[derive(Debug)]
pub struct ProcessSets {
    /// The global set, which every submission but a few asks for, and which never changes.
    global: RegisteredSet,
    others: RwLock<BTreeMap<ProcessSetId, RegisteredSet>>,
}

#[derive(Debug)]
struct RegisteredSet {
    /// Ascending; a member's position is its rank in the set.
    members: Arc<[Rank]>,
    /// How many operations without a name were submitted. Ranks match unnamed operations by this
    /// number, so it must not count what other sets do.
    unnamed: AtomicU64,
}

impl RegisteredSet {
    fn new(members: Arc<[Rank]>) -> Self {
        let unnamed = AtomicU64::new(0);
        Self { members, unnamed }
    }
}

impl ProcessSets {
    /// Only the global set, with all ranks of a job of `size`.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            global: RegisteredSet::new((0..size).map(Rank::from_index).collect()),
            others: RwLock::default(),
        }
    }

    /// The members of a set, ascending; `None` if there is no such set.
    pub fn members(&self, id: ProcessSetId) -> Option<Arc<[Rank]>> {
        self.look(id, |set| set.map(|set| Arc::clone(&set.members)))
    }

    /// What a function makes of the members of a set, which it gets without a copy.
    pub(crate) fn with_members<T>(
        &self,
        id: ProcessSetId,
        look: impl FnOnce(Option<&[Rank]>) -> T,
    ) -> T {
        self.look(id, |set| look(set.map(|set| &*set.members)))
    }

    /// The numbers of all sets, ascending.
    pub fn ids(&self) -> Vec<ProcessSetId> {
        let global = std::iter::once(ProcessSetId::GLOBAL);
        global.chain(self.read().keys().copied()).collect()
    }

    /// The number of the next operation without a name in a set, from 1.
    pub(crate) fn next_unnamed(&self, id: ProcessSetId) -> u64 {
        let next = |set: &RegisteredSet| set.unnamed.fetch_add(1, Ordering::Relaxed) + 1;
        self.look(id, |set| set.map_or(0, next))
    }

    pub(crate) fn insert(&self, id: ProcessSetId, members: Arc<[Rank]>) {
        self.write().insert(id, RegisteredSet::new(members));
    }

    pub(crate) fn remove(&self, id: ProcessSetId) {
        self.write().remove(&id);
    }

    fn look<T>(&self, id: ProcessSetId, look: impl FnOnce(Option<&RegisteredSet>) -> T) -> T {
        if id == ProcessSetId::GLOBAL {
            return look(Some(&self.global));
        }
        look(self.read().get(&id))
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<ProcessSetId, RegisteredSet>> {
        self.others.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<ProcessSetId, RegisteredSet>> {
        self.others.write().unwrap_or_else(PoisonError::into_inner)
    }
}
