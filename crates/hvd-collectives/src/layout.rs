//! How a buffer is divided into one part per member.
//!
//! Owns the rule for even shares ([`share`]), which is visible to users as the rows that
//! reducescatter hands out, and the arithmetic of offsets. Moves no bytes.

use std::ops::Range;

use crate::error::expect_length;
use crate::{Error, Result};

/// The part of `total` things that position `index` of `parts` gets: contiguous, in order, and
/// the first `total % parts` get one more.
///
/// # Panics
/// If `parts` is 0.
pub fn share(total: usize, parts: usize, index: usize) -> Range<usize> {
    let (base, surplus) = (total / parts, total % parts);
    let start = index * base + index.min(surplus);
    start..start + base + usize::from(index < surplus)
}

/// Bytes to read, divided into one part per member, back to back from the beginning.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The parts.
    pub bytes: &'a [u8],
    /// The length in bytes of each member's part.
    pub counts: &'a [usize],
}

/// Bytes to fill, divided into one part per member, back to back from the beginning.
#[derive(Debug)]
pub struct PartsMut<'a> {
    /// The parts.
    pub bytes: &'a mut [u8],
    /// The length in bytes of each member's part.
    pub counts: &'a [usize],
}

/// Adds up the parts' lengths, of which there must be one per member.
pub(crate) fn total_of(what: &'static str, counts: &[usize], members: usize) -> Result<usize> {
    expect_length(what, members, counts.len())?;
    let sum = counts
        .iter()
        .try_fold(0_usize, |sum, &count| sum.checked_add(count));
    sum.ok_or(Error::TooLong { what })
}

/// What a ring needs to know of the blocks that go round, each of which may lie in pieces.
pub(crate) trait Blocks: Copy {
    /// Number of blocks.
    fn blocks(&self) -> usize;

    /// The bytes of one piece of a block; none behind its last.
    fn piece(&self, block: usize, piece: usize) -> Option<Range<usize>>;

    /// Bytes of a block.
    fn bytes(&self, block: usize) -> usize {
        let pieces = (0..).map_while(|piece| self.piece(block, piece));
        pieces.map(|piece| piece.len()).sum()
    }

    /// Number of chunks into which a block is cut, piece by piece.
    fn chunks(&self, block: usize, chunk: usize) -> usize {
        let pieces = (0..).map_while(|piece| self.piece(block, piece));
        pieces.map(|piece| piece.len().div_ceil(chunk)).sum()
    }
}

/// Where each member's block lies in a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BlockLayout<'a> {
    /// Elements shared out as evenly as they can be.
    Even {
        elements: usize,
        element_size: usize,
        blocks: usize,
    },
    /// Blocks of these lengths.
    Counts(&'a [usize]),
    /// Everything is one member's.
    Single {
        owner: usize,
        bytes: usize,
        blocks: usize,
    },
}

impl Blocks for BlockLayout<'_> {
    fn blocks(&self) -> usize {
        match *self {
            Self::Even { blocks, .. } | Self::Single { blocks, .. } => blocks,
            Self::Counts(counts) => counts.len(),
        }
    }

    fn piece(&self, block: usize, piece: usize) -> Option<Range<usize>> {
        (piece == 0).then(|| self.range(block))
    }
}

impl BlockLayout<'_> {
    /// The bytes of one block.
    pub(crate) fn range(&self, block: usize) -> Range<usize> {
        match *self {
            Self::Even {
                elements,
                element_size,
                blocks,
            } => {
                let share = share(elements, blocks, block);
                share.start * element_size..share.end * element_size
            }
            // Summed anew each time: an operation asks once per member, and a table of offsets
            // would have to be allocated for each operation.
            Self::Counts(counts) => {
                let start = counts[..block].iter().sum::<usize>();
                start..start + counts[block]
            }
            Self::Single { owner, bytes, .. } => 0..if block == owner { bytes } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(total: usize, parts: usize) -> Vec<usize> {
        (0..parts)
            .map(|index| share(total, parts, index).len())
            .collect()
    }

    #[test]
    fn shares_are_contiguous_and_the_first_get_the_surplus() {
        assert_eq!(lengths(5, 3), [2, 2, 1]);
        assert_eq!(lengths(2, 3), [1, 1, 0]);
        assert_eq!(lengths(0, 2), [0, 0]);
        for (total, parts) in [(17, 5), (4, 4), (3, 8)] {
            let mut end = 0;
            for index in 0..parts {
                let share = share(total, parts, index);
                assert_eq!(share.start, end);
                end = share.end;
            }
            assert_eq!(end, total);
        }
    }

    #[test]
    fn blocks_lie_where_their_lengths_put_them() {
        let counts = BlockLayout::Counts(&[3, 0, 5]);
        assert_eq!(
            [0, 1, 2].map(|block| counts.range(block)),
            [0..3, 3..3, 3..8]
        );
        let even = BlockLayout::Even {
            elements: 4,
            element_size: 8,
            blocks: 3,
        };
        assert_eq!(
            [0, 1, 2].map(|block| even.range(block)),
            [0..16, 16..24, 24..32]
        );
        let single = BlockLayout::Single {
            owner: 1,
            bytes: 9,
            blocks: 3,
        };
        assert_eq!(
            [0, 1, 2].map(|block| single.range(block)),
            [0..0, 0..9, 0..0]
        );
    }

    #[test]
    fn lengths_that_overflow_are_refused() {
        let error = total_of("parts to send", &[usize::MAX, 1], 2).unwrap_err();
        assert!(matches!(
            error,
            Error::TooLong {
                what: "parts to send"
            }
        ));
        let error = total_of("list of parts", &[1], 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the list of parts should be 2 long but is 1"
        );
    }
}
