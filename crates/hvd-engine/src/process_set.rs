//! Which process sets exist. The engine thread changes the list when a verdict says so; callers on
//! any thread look at it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hvd_types::{ProcessSetId, Rank};

/// The process sets of a job.
#[derive(Debug)]
pub struct ProcessSets(RwLock<BTreeMap<ProcessSetId, Known>>);

#[derive(Debug)]
struct Known {
    /// Ascending; a member's position is its rank in the set.
    members: Arc<[Rank]>,
    /// How many operations without a name were submitted. Ranks match unnamed operations by this
    /// number, so it must not count what other sets do.
    unnamed: AtomicU64,
}

impl ProcessSets {
    /// Only the global set, with all ranks of a job of `size`.
    pub(crate) fn new(size: usize) -> Self {
        let sets = Self(RwLock::default());
        sets.insert(
            ProcessSetId::GLOBAL,
            (0..size).map(Rank::from_index).collect(),
        );
        sets
    }

    /// The members of a set, ascending; `None` if there is no such set.
    pub fn members(&self, id: ProcessSetId) -> Option<Arc<[Rank]>> {
        self.read().get(&id).map(|set| Arc::clone(&set.members))
    }

    /// The numbers of all sets, ascending.
    pub fn ids(&self) -> Vec<ProcessSetId> {
        self.read().keys().copied().collect()
    }

    /// The number of the next operation without a name in a set, from 1.
    pub(crate) fn next_unnamed(&self, id: ProcessSetId) -> u64 {
        let sets = self.read();
        sets.get(&id)
            .map_or(0, |set| set.unnamed.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn insert(&self, id: ProcessSetId, members: Arc<[Rank]>) {
        let unnamed = AtomicU64::new(0);
        self.write().insert(id, Known { members, unnamed });
    }

    pub(crate) fn remove(&self, id: ProcessSetId) {
        self.write().remove(&id);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<ProcessSetId, Known>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<ProcessSetId, Known>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
