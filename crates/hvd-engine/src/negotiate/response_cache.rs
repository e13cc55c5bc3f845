//! Every rank's memory of what was agreed: the worker's half of the response cache.
//!
//! It holds what the coordinator numbered, together with this rank's own request of that time, and
//! forgets exactly what response lists evict. If the same request comes again, its number is sent.

use std::sync::Arc;

use hvd_wire::{CacheId, Request, TensorSpec};

use crate::hash::FastMap;

/// One remembered tensor.
#[derive(Debug)]
struct CachedTensor {
    spec: Arc<TensorSpec>,
    request: Request,
}

/// Remembered tensors by number and by name.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache {
    by_id: FastMap<CacheId, CachedTensor>,
    by_name: FastMap<Arc<str>, CacheId>,
}

impl ResponseCache {
    /// The number that stands for this very request, if there is one.
    pub(crate) fn number_of(&self, request: &Request) -> Option<CacheId> {
        let id = self.by_name.get(&request.name)?;
        (self.by_id.get(id)?.request == *request).then_some(*id)
    }

    /// The description a number stands for, to look at.
    pub(crate) fn get(&self, id: CacheId) -> Option<&TensorSpec> {
        self.by_id.get(&id).map(|known| &*known.spec)
    }

    /// The description a number stands for.
    pub(crate) fn spec(&self, id: CacheId) -> Option<Arc<TensorSpec>> {
        self.by_id.get(&id).map(|known| Arc::clone(&known.spec))
    }

    /// Remembers a description that came with a number.
    pub(crate) fn remember(&mut self, id: CacheId, spec: Arc<TensorSpec>, request: Request) {
        self.by_name.insert(Arc::clone(&spec.name), id);
        self.by_id.insert(id, CachedTensor { spec, request });
    }

    /// Forgets a number.
    pub(crate) fn forget(&mut self, id: CacheId) {
        if let Some(known) = self.by_id.remove(&id)
            && self.by_name.get(&known.spec.name) == Some(&id)
        {
            self.by_name.remove(&known.spec.name);
        }
    }
}
