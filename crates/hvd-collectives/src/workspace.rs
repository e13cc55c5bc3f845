//! What the caller keeps for the algorithms: thresholds and memory.

use crate::{Algorithm, Cost, Scratch};

/// Sizes at which algorithms change over. Equal on all members of a group, or their messages do
/// not fit together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Bytes that travel before the receiver starts to work on them: large enough that the wire's
    /// fixed costs vanish, small enough to be still in the cache when they are reduced.
    pub chunk_bytes: usize,
    /// Largest allreduce, in bytes, that is done in few steps rather than with few bytes, if what
    /// messages cost is not known.
    pub small_allreduce_bytes: usize,
    /// Largest broadcast, in bytes, that is done in few steps rather than with few bytes.
    pub small_broadcast_bytes: usize,
    /// What messages between members without common memory cost, if that was measured.
    pub cost: Option<Cost>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            // Measured on a 10 Gbit/s link: with 256 KiB, which with what is reduced into no longer
            // fit a core's cache of 512 KiB, a tenth slower.
            chunk_bytes: 128 * 1024,
            small_allreduce_bytes: 32 * 1024,
            small_broadcast_bytes: 32 * 1024,
            cost: None,
        }
    }
}

impl Tuning {
    /// The allreduce for so many members without common memory and so many bytes.
    pub fn algorithm(&self, members: usize, bytes: usize) -> Algorithm {
        match self.cost {
            Some(cost) => Algorithm::cheapest(cost, members, bytes),
            None if bytes <= self.small_allreduce_bytes => Algorithm::RecursiveDoubling,
            None => Algorithm::Ring,
        }
    }

    /// Bytes of a chunk that holds whole elements: `chunk_bytes` rounded down, one element at
    /// least.
    pub(crate) fn chunk_of(&self, element_size: usize) -> usize {
        (self.chunk_bytes / element_size).max(1) * element_size
    }
}

/// Thresholds and reusable memory of one caller.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Where algorithms change over.
    pub tuning: Tuning,
    /// What algorithms receive into.
    pub scratch: Scratch,
}

impl Workspace {
    /// A workspace with the given thresholds and no memory yet.
    pub const fn new(tuning: Tuning) -> Self {
        Self {
            tuning,
            scratch: Scratch::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_whole_elements() {
        let tuning = Tuning {
            chunk_bytes: 19,
            ..Tuning::default()
        };
        assert_eq!(
            [1, 2, 4, 8].map(|size| tuning.chunk_of(size)),
            [19, 18, 16, 16]
        );
        let tuning = Tuning {
            chunk_bytes: 0,
            ..tuning
        };
        assert_eq!([1, 8].map(|size| tuning.chunk_of(size)), [1, 8]);
    }
}
