//! A store inside one process: for ranks that are threads, for tests, and for the launcher's own
//! access to what its server holds.

use std::sync::Arc;
use std::time::Duration;

use hvd_types::Rank;

use crate::shared_store::{SharedStore, WaitLimit};
use crate::{Result, Store};

/// A handle to a key-value store in this process; clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(pub(crate) Arc<SharedStore>);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemoryStore {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.0.put(key, value)
    }

    fn get(&mut self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        self.0.get(key, &WaitLimit::of(timeout))
    }

    fn exchange(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>> {
        let limit = WaitLimit::of(timeout);
        let values = self.0.exchange(scope, rank, size, value, &limit)?;
        Ok(Arc::unwrap_or_clone(values))
    }

    fn leave(&mut self, scope: &str, rank: Rank, reason: &str) -> Result<()> {
        self.0.leave(scope, rank, reason)
    }

    fn number(&mut self) -> Result<u64> {
        self.0.number()
    }
}
