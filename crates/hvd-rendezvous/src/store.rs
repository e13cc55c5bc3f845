//! The noticeboard as its users see it.

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
    /// A scope serves one exchange: its values are forgotten once every rank has them. Before
    /// that a rank that lost its answer may ask again. On a timeout the error lists the ranks
    /// that did not come.
    fn exchange(
        &mut self,
        scope: &str,
        rank: Rank,
        size: usize,
        value: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>>;
}
