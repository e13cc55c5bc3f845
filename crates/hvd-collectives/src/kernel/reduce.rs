//! Reduces one buffer into another.

use half::{bf16, f16};
use hvd_types::DType;

use super::element::{self, Element};
use super::half_float::HalfFloat;
use super::{Reduction, whole_elements};
use crate::Result;
use crate::error::expect_length;

/// Replaces each element of `accumulator` by its reduction with the same element of `operand`;
/// the accumulator is the left side.
pub fn reduce(
    dtype: DType,
    reduction: Reduction,
    accumulator: &mut [u8],
    operand: &[u8],
) -> Result<()> {
    whole_elements(dtype, accumulator.len())?;
    expect_length("operand of a reduction", accumulator.len(), operand.len())?;
    let loop_of_type = match dtype {
        DType::Uint8 => numbers::<u8>,
        DType::Int8 => numbers::<i8>,
        DType::Uint16 => numbers::<u16>,
        DType::Int16 => numbers::<i16>,
        DType::Int32 => numbers::<i32>,
        DType::Int64 => numbers::<i64>,
        DType::Float16 => half_floats::<f16>,
        DType::Bfloat16 => half_floats::<bf16>,
        DType::Float32 => numbers::<f32>,
        DType::Float64 => numbers::<f64>,
        DType::Bool => truths,
    };
    loop_of_type(reduction, accumulator, operand);
    Ok(())
}

fn numbers<T: Element>(reduction: Reduction, accumulator: &mut [u8], operand: &[u8]) {
    match reduction {
        Reduction::Sum => element::zip(accumulator, operand, T::sum),
        Reduction::Min => element::zip(accumulator, operand, T::min),
        Reduction::Max => element::zip(accumulator, operand, T::max),
        Reduction::Product => element::zip(accumulator, operand, T::product),
    }
}

fn half_floats<H: HalfFloat>(reduction: Reduction, accumulator: &mut [u8], operand: &[u8]) {
    match reduction {
        Reduction::Sum => H::zip(accumulator, operand, Element::sum),
        Reduction::Min => H::zip(accumulator, operand, Element::min),
        Reduction::Max => H::zip(accumulator, operand, Element::max),
        Reduction::Product => H::zip(accumulator, operand, Element::product),
    }
}

fn truths(reduction: Reduction, accumulator: &mut [u8], operand: &[u8]) {
    let or = |left: u8, right: u8| u8::from(left | right != 0);
    let and = |left: u8, right: u8| u8::from(left != 0) & u8::from(right != 0);
    match reduction {
        Reduction::Sum | Reduction::Max => element::zip(accumulator, operand, or),
        Reduction::Min | Reduction::Product => element::zip(accumulator, operand, and),
    }
}
