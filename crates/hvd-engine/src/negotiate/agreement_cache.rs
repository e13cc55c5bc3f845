//! The coordinator's memory of agreements, least recently used ones forgotten first.
//!
//! - `CACHE-1` a number is given once in a job and always means the same agreement.
//! - `CACHE-2` an agreement that was evicted is kept until every rank has read the response list
//!   that evicted it; until then a rank may still send its number.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use hvd_wire::CacheId;

use super::agreement::Agreement;

/// Agreements by number.
#[derive(Debug)]
pub(crate) struct AgreementCache {
    capacity: usize,
    last_id: u64,
    clock: u64,
    live: HashMap<CacheId, CacheSlot>,
    by_name: HashMap<Arc<str>, CacheId>,
    /// Numbers by time of last use.
    by_age: BTreeMap<u64, CacheId>,
    /// Evicted agreements with the sequence of the response list that evicted them, oldest first.
    retired: VecDeque<(u64, CacheId)>,
    retired_agreements: HashMap<CacheId, Arc<Agreement>>,
    /// The last response list each member has read.
    seen: Vec<u64>,
}

#[derive(Debug)]
struct CacheSlot {
    agreement: Arc<Agreement>,
    age: u64,
}

impl AgreementCache {
    pub(crate) fn new(capacity: usize, size: usize) -> Self {
        Self {
            capacity,
            last_id: 0,
            clock: 0,
            live: HashMap::new(),
            by_name: HashMap::new(),
            by_age: BTreeMap::new(),
            retired: VecDeque::new(),
            retired_agreements: HashMap::new(),
            seen: vec![0; size],
        }
    }

    /// The agreement a number stands for, also if it was evicted lately.
    pub(crate) fn resolve(&self, id: CacheId) -> Option<&Arc<Agreement>> {
        self.live
            .get(&id)
            .map(|slot| &slot.agreement)
            .or_else(|| self.retired_agreements.get(&id))
    }

    /// Whether the number may be used in a response list.
    pub(crate) fn is_live(&self, id: CacheId) -> bool {
        self.live.contains_key(&id)
    }

    /// Records that an agreement was used.
    pub(crate) fn touch(&mut self, id: CacheId) {
        if let Some(slot) = self.live.get_mut(&id) {
            self.by_age.remove(&slot.age);
            self.clock += 1;
            slot.age = self.clock;
            self.by_age.insert(slot.age, id);
        }
    }

    /// Remembers an agreement and returns its number, or `None` if nothing is remembered. What has
    /// to be forgotten for it (an older agreement of the same name, the least recently used one)
    /// is added to `evicted`, which goes into the response list with the given sequence.
    pub(crate) fn remember(
        &mut self,
        agreement: &Arc<Agreement>,
        sequence: u64,
        evicted: &mut Vec<CacheId>,
    ) -> Option<CacheId> {
        if self.capacity == 0 {
            return None;
        }
        let oldest = || self.by_age.first_key_value().map(|(_, &id)| id);
        let outdated = self.by_name.get(&agreement.name).copied();
        let full = self.live.len() >= self.capacity;
        if let Some(victim) = outdated.or_else(|| full.then(oldest).flatten()) {
            self.evict(victim, sequence);
            evicted.push(victim);
        }
        self.last_id += 1;
        let id = CacheId(self.last_id);
        self.clock += 1;
        let slot = CacheSlot {
            agreement: Arc::clone(agreement),
            age: self.clock,
        };
        self.live.insert(id, slot);
        self.by_name.insert(Arc::clone(&agreement.name), id);
        self.by_age.insert(self.clock, id);
        Some(id)
    }

    /// Remembers up to `capacity` agreements from now on. What has to be forgotten for that is
    /// added to `evicted`, which goes into the response list with the given sequence.
    pub(crate) fn resize(&mut self, capacity: usize, sequence: u64, evicted: &mut Vec<CacheId>) {
        self.capacity = capacity;
        while self.live.len() > capacity
            && let Some((_, &oldest)) = self.by_age.first_key_value()
        {
            self.evict(oldest, sequence);
            evicted.push(oldest);
        }
    }

    /// Records which response list the members at some positions have read, and drops agreements
    /// that no member can refer to any more.
    pub(crate) fn acknowledge(&mut self, positions: Range<usize>, seen: u64) {
        self.seen[positions].fill(seen);
        if self.retired.is_empty() {
            return;
        }
        let all = self.seen.iter().copied().min().unwrap_or(0);
        while let Some(&(sequence, id)) = self.retired.front() {
            if sequence > all {
                break;
            }
            self.retired.pop_front();
            self.retired_agreements.remove(&id);
        }
    }

    fn evict(&mut self, id: CacheId, sequence: u64) {
        let Some(slot) = self.live.remove(&id) else {
            return;
        };
        self.by_age.remove(&slot.age);
        self.by_name.remove(&slot.agreement.name);
        self.retired.push_back((sequence, id));
        self.retired_agreements.insert(id, slot.agreement);
    }
}

#[cfg(test)]
mod tests {
    use hvd_types::{DType, Device, OpKind, Rank, ReduceOp, Shape};

    use super::*;
    use crate::negotiate::agreement::Devices;

    fn agreement(name: &str) -> Arc<Agreement> {
        Arc::new(Agreement {
            name: name.into(),
            kind: OpKind::Allreduce,
            dtype: DType::Float32,
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            root: Rank::new(0),
            shape: Shape::new([1]),
            first_dimensions: vec![],
            devices: Devices::Same(Device::Cpu),
            group: None,
        })
    }

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut cache = AgreementCache::new(2, 2);
        let mut evicted = Vec::new();
        let a = cache.remember(&agreement("a"), 1, &mut evicted).unwrap();
        let b = cache.remember(&agreement("b"), 1, &mut evicted).unwrap();
        assert_eq!(evicted, []);
        cache.touch(a);
        let c = cache.remember(&agreement("c"), 2, &mut evicted).unwrap();
        assert_eq!(evicted, [b]);
        assert!(cache.is_live(a) && cache.is_live(c) && !cache.is_live(b));
    }

    #[test]
    fn a_changed_tensor_replaces_its_older_self_and_gets_a_new_number() {
        let mut cache = AgreementCache::new(8, 2);
        let mut evicted = Vec::new();
        let old = cache.remember(&agreement("a"), 1, &mut evicted).unwrap();
        let new = cache.remember(&agreement("a"), 2, &mut evicted).unwrap();
        assert_ne!(old, new);
        assert_eq!(evicted, [old]);
    }

    #[test]
    fn evicted_agreements_are_kept_until_every_rank_knows() {
        let mut cache = AgreementCache::new(1, 2);
        let mut evicted = Vec::new();
        let a = cache.remember(&agreement("a"), 1, &mut evicted).unwrap();
        cache.remember(&agreement("b"), 2, &mut evicted).unwrap();
        cache.acknowledge(0..1, 2);
        assert_eq!(&*cache.resolve(a).unwrap().name, "a");
        cache.acknowledge(1..2, 1);
        assert!(cache.resolve(a).is_some());
        cache.acknowledge(1..2, 2);
        assert!(cache.resolve(a).is_none());
    }

    #[test]
    fn a_smaller_cache_forgets_the_least_recently_used_and_says_so() {
        let mut cache = AgreementCache::new(3, 1);
        let mut evicted = Vec::new();
        let mut remember = |cache: &mut AgreementCache, name| {
            cache.remember(&agreement(name), 1, &mut evicted).unwrap()
        };
        let [a, b, c] = ["a", "b", "c"].map(|name| remember(&mut cache, name));
        cache.touch(a);
        let mut evicted = Vec::new();
        cache.resize(1, 2, &mut evicted);
        assert_eq!(evicted, [b, c]);
        assert!(cache.is_live(a) && cache.resolve(b).is_some());
        cache.acknowledge(0..1, 2);
        assert!(cache.resolve(b).is_none());
        cache.resize(0, 3, &mut evicted);
        assert_eq!(evicted, [b, c, a]);
        cache.resize(2, 4, &mut evicted);
        assert!(cache.remember(&agreement("a"), 4, &mut evicted).is_some());
    }

    #[test]
    fn no_capacity_remembers_nothing() {
        let mut cache = AgreementCache::new(0, 2);
        assert_eq!(cache.remember(&agreement("a"), 1, &mut Vec::new()), None);
    }
}
