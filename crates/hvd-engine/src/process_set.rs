//! Which process sets exist. The engine thread changes the list when a verdict says so; callers on
//! any thread look at it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use hvd_types::{ProcessSetId, Rank};

/// Members of every process set, ascending; a member's position is its rank in the set.
#[derive(Debug)]
pub struct ProcessSets(RwLock<BTreeMap<ProcessSetId, Arc<[Rank]>>>);

impl ProcessSets {
    /// Only the global set, with all ranks of a job of `size`.
    pub(crate) fn new(size: usize) -> Self {
        let everybody = (0..size).map(Rank::from_index).collect();
        Self(RwLock::new(BTreeMap::from([(
            ProcessSetId::GLOBAL,
            everybody,
        )])))
    }

    /// The members of a set; `None` if there is no such set.
    pub fn members(&self, id: ProcessSetId) -> Option<Arc<[Rank]>> {
        let sets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        sets.get(&id).cloned()
    }

    /// The numbers of all sets, ascending.
    pub fn ids(&self) -> Vec<ProcessSetId> {
        let sets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        sets.keys().copied().collect()
    }

    pub(crate) fn insert(&self, id: ProcessSetId, members: Arc<[Rank]>) {
        let mut sets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        sets.insert(id, members);
    }

    pub(crate) fn remove(&self, id: ProcessSetId) {
        let mut sets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        sets.remove(&id);
    }
}
