//! Adasum: a sum of vectors that counts what they have in common once.
//!
//! Two vectors a and b become (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b, where a factor is 1 if the
//! vector's |·|² is below the square root of the smallest normal `float64`. Orthogonal vectors are
//! thereby added, equal ones averaged, and a vector of zeros changes nothing. More than two are
//! combined in a tree: members 0 and 1, 2 and 3, then the pairs, and so on. Tensors that share a
//! buffer are vectors of their own.
//!
//! With n members, n a power of two, S bytes and T tensors:
//!
//! 1. Halving, log2(n) levels: at level k a member exchanges with the one whose position differs
//!    in bit k, S / 2^(k+1) bytes each, so that each holds a half of what both held, of its own
//!    tree's vectors and of the other's. The products over these halves are summed over the
//!    2^(k+1) members that hold the rest of the vectors, by recursive doubling: k + 1 steps of
//!    24 T bytes. Then each member combines its halves.
//! 2. Doubling: the halves go back the same way, log2(n) steps.
//!
//! A member sends 2 S (n - 1) / n bytes, the least possible, and 12 T log2(n) (log2(n) + 1) of
//! products.
//!
//! - `ADASUM-1` results are the same bits everywhere: every element is computed by one member, and
//!   then only copied.
//! - `ADASUM-2` a tensor's result does not depend on the tensors beside it, bit for bit: each is
//!   divided by itself, see [`Shares`].
//!
//! Products are `float64`, so vectors of `float64` whose |·|² exceeds its range, with elements of
//! 1e154 and more, become "not a number"; all other types are far from that.

use std::ops::Range;

use hvd_types::DType;

use super::recursive_doubling::fold_and_double;
use super::shares::Shares;
use crate::error::expect_length;
use crate::kernel::{Products, products, supports_adasum, weighted_sum, whole_elements};
use crate::layout::total_of;
use crate::{Combine, Communicator, Error, Reduction, Result, Workspace};

/// How the parts of products are put together.
const SUM: Combine = Combine {
    dtype: DType::Float64,
    reduction: Reduction::Sum,
};

/// Bytes of one tensor's products.
const PRODUCTS: usize = size_of::<Products>();

/// Combines `buffer` over all members, in place. It holds tensors of `float16`, `bfloat16`,
/// `float32` or `float64` elements, back to back, whose lengths in bytes are `tensors`; the number
/// of members is a power of two.
pub fn adasum(
    comm: &mut Communicator<'_>,
    dtype: DType,
    buffer: &mut [u8],
    tensors: &[usize],
    workspace: &mut Workspace,
) -> Result<()> {
    check(comm.size(), dtype, buffer, tensors)?;
    if comm.size() == 1 || buffer.is_empty() {
        return Ok(());
    }
    let shares = Shares {
        tensors,
        element_size: dtype.size(),
        number: comm.size(),
    };
    let longest = shares.range(0..comm.size() / 2).len();
    let sums = 2 * PRODUCTS * tensors.len();
    if shares.are_in_place() {
        let scratch = workspace.scratch.bytes(sums + longest);
        let (sums, received) = scratch.split_at_mut(sums);
        return AdasumTree::new(comm, dtype, shares).run(buffer, received, sums);
    }
    let scratch = workspace.scratch.bytes(sums + buffer.len());
    let (sums, work) = scratch.split_at_mut(sums);
    shares.pack(buffer, work);
    // The tensors are all in `work` now, so their buffer has room for what is received.
    AdasumTree::new(comm, dtype, shares).run(work, &mut buffer[..longest], sums)?;
    shares.unpack(work, buffer);
    Ok(())
}

fn check(size: usize, dtype: DType, buffer: &[u8], tensors: &[usize]) -> Result<()> {
    supports_adasum(dtype)?;
    if !size.is_power_of_two() {
        return Err(Error::NotAPowerOfTwo {
            size,
            below: 1 << size.ilog2(),
            above: size.next_power_of_two(),
        });
    }
    tensors
        .iter()
        .try_for_each(|&bytes| whole_elements(dtype, bytes))?;
    let total = total_of("fused tensors", tensors, tensors.len())?;
    expect_length("buffer of fused tensors", total, buffer.len())
}

struct AdasumTree<'a, 'b> {
    comm: &'a mut Communicator<'b>,
    dtype: DType,
    shares: Shares<'a>,
    /// The caller's share in the end: its position with the bits in reverse order, because the
    /// first level's bit, the lowest, chooses between the halves of all shares.
    own: usize,
}

impl<'a, 'b> AdasumTree<'a, 'b> {
    fn new(comm: &'a mut Communicator<'b>, dtype: DType, shares: Shares<'a>) -> Self {
        let unused_bits = usize::BITS - comm.size().ilog2();
        let own = comm.index().reverse_bits() >> unused_bits;
        Self {
            comm,
            dtype,
            shares,
            own,
        }
    }

    fn run(&mut self, work: &mut [u8], received: &mut [u8], sums: &mut [u8]) -> Result<()> {
        let levels = self.comm.size().ilog2();
        for level in 0..levels {
            self.halve(level, work, received, sums)?;
        }
        for level in (0..levels).rev() {
            let (peer, kept, given) = self.halves(level);
            let ranges = [self.shares.range(kept), self.shares.range(given)];
            #[expect(clippy::expect_used, reason = "shares do not overlap")]
            let [kept, given] = work
                .get_disjoint_mut(ranges)
                .expect("halves are two of one buffer");
            self.comm
                .exchange(Some((peer, kept)), Some((peer, given)))?;
        }
        Ok(())
    }

    /// The member to exchange with at a level, the shares that the caller keeps then, and those
    /// that it gives away.
    fn halves(&self, level: u32) -> (usize, Range<usize>, Range<usize>) {
        let half = (self.shares.number >> level) / 2;
        let kept = self.own / half * half;
        let given = kept ^ half;
        let peer = self.comm.index() ^ (1 << level);
        (peer, kept..kept + half, given..given + half)
    }

    fn halve(
        &mut self,
        level: u32,
        work: &mut [u8],
        received: &mut [u8],
        sums: &mut [u8],
    ) -> Result<()> {
        let (peer, kept, given) = self.halves(level);
        let (kept_bytes, given_bytes) = (self.shares.range(kept.clone()), self.shares.range(given));
        let received = &mut received[..kept_bytes.len()];
        self.comm.exchange(
            Some((peer, &work[given_bytes])),
            Some((peer, &mut *received)),
        )?;

        let own = &mut work[kept_bytes];
        let is_first = self.comm.index() < peer;
        let (sums, other_sums) = sums.split_at_mut(sums.len() / 2);
        self.multiply(kept.clone(), is_first, own, received, sums)?;
        let size = 2 << level;
        let start = self.comm.index() / size * size;
        fold_and_double(
            &mut self.comm.among(start..start + size),
            SUM,
            sums,
            other_sums,
        )?;
        for (tensor, run) in self.shares.each(kept) {
            let mut weights = weights(sum_of(sums, tensor));
            if !is_first {
                weights.reverse();
            }
            weighted_sum(self.dtype, weights, &mut own[run.clone()], &received[run])?;
        }
        Ok(())
    }

    /// Sums up what the caller has of each tensor's products, with the lower members' vector as
    /// the first.
    fn multiply(
        &self,
        shares: Range<usize>,
        is_first: bool,
        own: &[u8],
        received: &[u8],
        sums: &mut [u8],
    ) -> Result<()> {
        sums.fill(0);
        let (first, second) = if is_first {
            (own, received)
        } else {
            (received, own)
        };
        for (tensor, run) in self.shares.each(shares) {
            let part = products(self.dtype, &first[run.clone()], &second[run])?;
            let place = &mut sums[tensor * PRODUCTS..][..PRODUCTS];
            SUM.apply(place, bytemuck::bytes_of(&part))?;
        }
        Ok(())
    }
}

fn sum_of(sums: &[u8], tensor: usize) -> Products {
    bytemuck::pod_read_unaligned(&sums[tensor * PRODUCTS..][..PRODUCTS])
}

/// The factors of both vectors.
fn weights([dot, first, second]: Products) -> [f64; 2] {
    let least = f64::MIN_POSITIVE.sqrt();
    [first, second].map(|square| {
        if square >= least {
            1.0 - dot / (2.0 * square)
        } else {
            1.0
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "these are exact")]
    fn weights_follow_the_rule() {
        assert_eq!(weights([0.0, 1.0, 1.0]), [1.0, 1.0]);
        assert_eq!(weights([8.0, 8.0, 8.0]), [0.5, 0.5]);
        assert_eq!(weights([1.0, 1.0, 2.0]), [0.5, 0.75]);
        assert_eq!(weights([-1.0, 1.0, 0.0]), [1.5, 1.0]);
        let least = f64::MIN_POSITIVE.sqrt();
        assert_eq!(weights([least, least, least.next_down()]), [0.5, 1.0]);
    }
}
