//! Products of two vectors and sums of their multiples: what Adasum computes with.
//!
//! Both are computed in `float64` whatever the type of the elements. Products are summed in eight
//! lanes, element i in lane i modulo 8, which are added up in order at the end; the result thus
//! depends on the elements and their number alone. Sums are rounded to the type of the elements,
//! those of 16 bits by way of `float32`.

use std::array;

use half::{bf16, f16};
use hvd_types::DType;

use super::element::{self, LANES};
use super::half_float::HalfFloat;
use super::sweep;
use crate::{Error, Result};

/// The dot product of two vectors, and that of each with itself.
pub(crate) type Products = [f64; 3];

/// Fails unless Adasum is defined for elements of a type.
pub(crate) fn supports_adasum(dtype: DType) -> Result<()> {
    match dtype {
        DType::Float16 | DType::Bfloat16 | DType::Float32 | DType::Float64 => Ok(()),
        _ => Err(Error::NoAdasum { dtype }),
    }
}

/// The products of `left` and `right`, of `left` with itself and of `right` with itself.
pub(crate) fn products(dtype: DType, left: &[u8], right: &[u8]) -> Result<Products> {
    supports_adasum(dtype)?;
    let mut sums = LaneSums::default();
    match dtype {
        DType::Float16 => f16::pairs(left, right, |left, right| sums.add(left, right)),
        DType::Bfloat16 => bf16::pairs(left, right, |left, right| sums.add(left, right)),
        DType::Float32 => element::pairs::<f32>(left, right, |left, right| sums.add(left, right)),
        _ => element::pairs::<f64>(left, right, |left, right| sums.add(left, right)),
    }
    Ok(sums.total())
}

/// Replaces each element of `accumulator` by the sum of it and its counterpart in `operand`, each
/// times its weight.
pub(crate) fn weighted_sum(
    dtype: DType,
    weights: [f64; 2],
    accumulator: &mut [u8],
    operand: &[u8],
) -> Result<()> {
    supports_adasum(dtype)?;
    let wide = |left: f64, right: f64| weights[0] * left + weights[1] * right;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the rule: compute in float64, round once"
    )]
    let narrow = |left: f32, right: f32| wide(left.into(), right.into()) as f32;
    match dtype {
        DType::Float16 => f16::zip(accumulator, operand, narrow),
        DType::Bfloat16 => bf16::zip(accumulator, operand, narrow),
        DType::Float32 => sweep::zip(accumulator, operand, narrow),
        _ => sweep::zip(accumulator, operand, wide),
    }
    Ok(())
}

#[derive(Default)]
struct LaneSums {
    dot: [f64; LANES],
    left: [f64; LANES],
    right: [f64; LANES],
}

impl LaneSums {
    fn add<T: Into<f64>>(&mut self, left: [T; LANES], right: [T; LANES]) {
        let (left, right) = (left.map(T::into), right.map(T::into));
        self.dot = array::from_fn(|lane| self.dot[lane] + left[lane] * right[lane]);
        self.left = array::from_fn(|lane| self.left[lane] + left[lane] * left[lane]);
        self.right = array::from_fn(|lane| self.right[lane] + right[lane] * right[lane]);
    }

    fn total(self) -> Products {
        [self.dot, self.left, self.right].map(|lanes| lanes.into_iter().sum())
    }
}
