//! The order in which Adasum keeps a fused buffer while it works on it. Moves bytes only between
//! two buffers of the caller.
//!
//! Every tensor is divided into one share per member, and shares lie by member, then by tensor:
//!
//! ```text
//! tensors   A0 A1 A2 A3 | B0 B1 B2 B3
//! shares    A0 B0 | A1 B1 | A2 B2 | A3 B3
//! ```
//!
//! What half of the members work on, or half of those, is then one range of bytes, and where a
//! tensor is cut does not depend on the tensors beside it. The order is that of the tensors
//! themselves if there is only one.

use std::ops::Range;

use crate::layout::share;

/// Where the shares of fused tensors lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares<'a> {
    /// Bytes of each tensor.
    pub(super) tensors: &'a [usize],
    /// Bytes of one element.
    pub(super) element_size: usize,
    /// Shares of each tensor.
    pub(super) number: usize,
}

impl Shares<'_> {
    /// Whether the order of shares is the order of the tensors.
    pub(super) fn are_in_place(&self) -> bool {
        self.tensors.iter().filter(|&&bytes| bytes > 0).count() <= 1
    }

    /// The bytes of some neighbouring shares of all tensors.
    pub(super) fn range(&self, shares: Range<usize>) -> Range<usize> {
        self.start_of(shares.start)..self.start_of(shares.end)
    }

    fn start_of(&self, at: usize) -> usize {
        // One behind the last share begins where the last one ends.
        let bytes = |tensor: &usize| match at.checked_sub(self.number) {
            Some(_) => *tensor,
            None => self.within(*tensor, at).start,
        };
        self.tensors.iter().map(bytes).sum()
    }

    /// The bytes of a share within its tensor.
    fn within(&self, tensor: usize, at: usize) -> Range<usize> {
        let elements = share(tensor / self.element_size, self.number, at);
        elements.start * self.element_size..elements.end * self.element_size
    }

    /// Some neighbouring shares in their order: number of the tensor, and bytes counted from the
    /// first of them.
    pub(super) fn each(
        &self,
        shares: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut end = 0;
        let pairs = shares.flat_map(|at| (0..self.tensors.len()).map(move |tensor| (tensor, at)));
        pairs.map(move |(tensor, at)| {
            let start = end;
            end += self.within(self.tensors[tensor], at).len();
            (tensor, start..end)
        })
    }

    /// Copies tensors into the order of shares.
    pub(super) fn pack(&self, tensors: &[u8], shares: &mut [u8]) {
        self.places(|place, share| shares[share].copy_from_slice(&tensors[place]));
    }

    /// Copies shares back into the order of tensors.
    pub(super) fn unpack(&self, shares: &[u8], tensors: &mut [u8]) {
        self.places(|place, share| tensors[place].copy_from_slice(&shares[share]));
    }

    /// Calls `copy` with the two places of every share: among the tensors, and among the shares.
    fn places(&self, mut copy: impl FnMut(Range<usize>, Range<usize>)) {
        let mut end = 0;
        for at in 0..self.number {
            let mut tensor_start = 0;
            for &tensor in self.tensors {
                let within = self.within(tensor, at);
                let share = end..end + within.len();
                end = share.end;
                copy(
                    tensor_start + within.start..tensor_start + within.end,
                    share,
                );
                tensor_start += tensor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares<'_> = Shares {
        tensors: &[10, 0, 2, 6],
        element_size: 2,
        number: 4,
    };

    #[test]
    fn shares_lie_by_member_and_then_by_tensor() {
        let tensors = b"AaBbCcDdEe.,WwXxYy";
        let mut shares = [0; 18];
        SHARES.pack(tensors, &mut shares);
        assert_eq!(&shares, b"AaBb.,WwCcXxDdYyEe");
        let mut back = [0; 18];
        SHARES.unpack(&shares, &mut back);
        assert_eq!(&back, tensors);
    }

    #[test]
    fn neighbouring_shares_are_one_range() {
        assert_eq!(SHARES.range(0..4), 0..18);
        assert_eq!(SHARES.range(0..2), 0..12);
        assert_eq!(SHARES.range(2..4), 12..18);
        assert_eq!(SHARES.range(3..4), 16..18);
        let second_half: Vec<_> = SHARES.each(2..4).filter(|run| !run.1.is_empty()).collect();
        assert_eq!(second_half, [(0, 0..2), (3, 2..4), (0, 4..6)]);
    }

    #[test]
    fn one_tensor_is_already_in_order() {
        assert!(!SHARES.are_in_place());
        let single = Shares {
            tensors: &[0, 6, 0],
            ..SHARES
        };
        assert!(single.are_in_place());
        let mut shares = [0; 6];
        single.pack(b"AaBbCc", &mut shares);
        assert_eq!(&shares, b"AaBbCc");
    }
}
