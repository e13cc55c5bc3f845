//! The key-value store as its users see it.

use std::time::Duration;

use hvd_types::Rank;

use crate::Result;

/// Values under names, shared by all processes of a job. Waiting happens where the values are;
/// nothing polls.
pub trait Store: Send {
    /// Leaves a value under a name, replacing what was there.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()>;

    /// Returns the value under a name, waiting for it if need be. The value stays.
    fn get(&mut self, key: &str, timeout: Duration) -> Result<Vec<u8>>;

    /// Leaves this rank's value, waits until all `size` ranks have left theirs, and returns them
    /// by rank.
    ///
    /// Ranks count for as long as they wait. One that timed out, or whose connection has closed,
    /// is waited for again, until it comes again; on a timeout the error lists the ranks that did
    /// not come. A scope may serve one exchange after the other.
    fn exchange(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>>;

    /// Fails the exchange of this scope for all ranks, now or when they come: this one will not.
    /// `reason` says where it runs and why, as the rest of a sentence. Such a scope must not be
    /// used again.
    fn leave(&mut self, scope: &str, rank: Rank, reason: &str) -> Result<()>;

    /// A number that this store has not given before: 1, 2, 3.
    fn number(&mut self) -> Result<u64>;
}
