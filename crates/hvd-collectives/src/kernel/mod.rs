//! Element-wise work on bytes that hold elements of a [`DType`].
//!
//! The bytes need no particular alignment: tensors of a fusion buffer and chunks of a message
//! begin anywhere. Elements are in the byte order of the machine. Which loop runs depends only on
//! type, operation, length and processor, never on alignment, and no loop changes the order of
//! operations; equal inputs give equal bits on every rank.
//!
//! - Integer sums and products wrap.
//! - `float16` and `bfloat16` are reduced and scaled in `float32` and rounded to nearest even
//!   after each step.
//! - Minimum and maximum are not a number if either side is not, whichever side that is: a rank
//!   whose values went wrong is seen by all ranks, not just by some.
//! - A `bool` is false if its byte is 0. Sum and maximum are "or", product and minimum are "and";
//!   results are 0 or 1.
//! - Scaled integers are computed in `float64` and truncated toward zero; what does not fit
//!   becomes the nearest value that does, and "not a number" becomes 0.

mod adasum;
mod copy;
mod element;
mod half_float;
mod neutral;
mod reduce;
mod scale;
mod sweep;

pub(crate) use adasum::{Products, products, supports_adasum, weighted_sum};
pub use copy::copy;
pub use neutral::fill_neutral;
pub use reduce::{reduce, reduce_into};
pub(crate) use scale::is_one;
pub use scale::{copy_scaled, scale};

use hvd_types::DType;

use crate::{Error, Result};

/// How two elements become one. An average is a sum, scaled by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Reduction {
    Sum,
    Min,
    Max,
    Product,
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Min, Self::Max, Self::Product];
}

/// What a reducing collective does with elements that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Combine {
    /// The type of the elements.
    pub dtype: DType,
    /// How two of them become one.
    pub reduction: Reduction,
}

impl Combine {
    /// Reduces `operand` into `accumulator`, which is the left side.
    pub(crate) fn apply(self, accumulator: &mut [u8], operand: &[u8]) -> Result<()> {
        reduce(self.dtype, self.reduction, accumulator, operand)
    }

    /// Fills `destination` with the reduction of two operands, the left one first.
    pub(crate) fn merge(self, destination: &mut [u8], operands: [&[u8]; 2]) -> Result<()> {
        reduce_into(self.dtype, self.reduction, destination, operands)
    }

    /// Fails unless `bytes` is a whole number of elements.
    pub(crate) fn check(self, bytes: usize) -> Result<()> {
        whole_elements(self.dtype, bytes)
    }
}

pub(crate) fn whole_elements(dtype: DType, bytes: usize) -> Result<()> {
    if bytes.is_multiple_of(dtype.size()) {
        Ok(())
    } else {
        Err(Error::PartialElement { bytes, dtype })
    }
}
