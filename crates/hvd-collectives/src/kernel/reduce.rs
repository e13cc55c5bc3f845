//! Reduces one buffer into another.

use half::{bf16, f16};
use hvd_types::DType;

use super::element::Element;
use super::half_float::HalfFloat;
use super::{Reduction, sweep, whole_elements};
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

/// Fills `destination` with the reduction of the elements of `left` and `right`.
pub fn reduce_into(
    dtype: DType,
    reduction: Reduction,
    destination: &mut [u8],
    [left, right]: [&[u8]; 2],
) -> Result<()> {
    whole_elements(dtype, destination.len())?;
    expect_length("left of a reduction", destination.len(), left.len())?;
    expect_length("right of a reduction", destination.len(), right.len())?;
    let loop_of_type = match dtype {
        DType::Uint8 => merge_numbers::<u8>,
        DType::Int8 => merge_numbers::<i8>,
        DType::Uint16 => merge_numbers::<u16>,
        DType::Int16 => merge_numbers::<i16>,
        DType::Int32 => merge_numbers::<i32>,
        DType::Int64 => merge_numbers::<i64>,
        DType::Float16 => merge_half_floats::<f16>,
        DType::Bfloat16 => merge_half_floats::<bf16>,
        DType::Float32 => merge_numbers::<f32>,
        DType::Float64 => merge_numbers::<f64>,
        DType::Bool => merge_truths,
    };
    loop_of_type(reduction, destination, left, right);
    Ok(())
}

fn numbers<T: Element>(reduction: Reduction, accumulator: &mut [u8], operand: &[u8]) {
    match reduction {
        Reduction::Sum => sweep::zip(accumulator, operand, T::sum),
        Reduction::Min => sweep::zip(accumulator, operand, T::min),
        Reduction::Max => sweep::zip(accumulator, operand, T::max),
        Reduction::Product => sweep::zip(accumulator, operand, T::product),
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

fn merge_numbers<T: Element>(
    reduction: Reduction,
    destination: &mut [u8],
    left: &[u8],
    right: &[u8],
) {
    match reduction {
        Reduction::Sum => sweep::merge(destination, left, right, T::sum),
        Reduction::Min => sweep::merge(destination, left, right, T::min),
        Reduction::Max => sweep::merge(destination, left, right, T::max),
        Reduction::Product => sweep::merge(destination, left, right, T::product),
    }
}

fn merge_half_floats<H: HalfFloat>(
    reduction: Reduction,
    destination: &mut [u8],
    left: &[u8],
    right: &[u8],
) {
    match reduction {
        Reduction::Sum => H::merge(destination, left, right, Element::sum),
        Reduction::Min => H::merge(destination, left, right, Element::min),
        Reduction::Max => H::merge(destination, left, right, Element::max),
        Reduction::Product => H::merge(destination, left, right, Element::product),
    }
}

fn truths(reduction: Reduction, accumulator: &mut [u8], operand: &[u8]) {
    match reduction {
        Reduction::Sum | Reduction::Max => sweep::zip(accumulator, operand, or),
        Reduction::Min | Reduction::Product => sweep::zip(accumulator, operand, and),
    }
}

fn merge_truths(reduction: Reduction, destination: &mut [u8], left: &[u8], right: &[u8]) {
    match reduction {
        Reduction::Sum | Reduction::Max => sweep::merge(destination, left, right, or),
        Reduction::Min | Reduction::Product => sweep::merge(destination, left, right, and),
    }
}

fn or(left: u8, right: u8) -> u8 {
    u8::from(left | right != 0)
}

fn and(left: u8, right: u8) -> u8 {
    u8::from(left != 0) & u8::from(right != 0)
}
