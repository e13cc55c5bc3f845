//! Multiplies buffers by a factor, in place or while copying.

use half::{bf16, f16};
use hvd_types::DType;

use super::copy::copy;
use super::element::Element;
use super::half_float::HalfFloat;
use super::{sweep, whole_elements};
use crate::error::expect_length;
use crate::{Error, Result};

/// Multiplies every element by `factor`. A factor of exactly 1 leaves the bytes alone.
pub fn scale(dtype: DType, factor: f64, data: &mut [u8]) -> Result<()> {
    whole_elements(dtype, data.len())?;
    if is_one(factor) {
        return Ok(());
    }
    match dtype {
        DType::Uint8 => numbers::<u8>(factor, data),
        DType::Int8 => numbers::<i8>(factor, data),
        DType::Uint16 => numbers::<u16>(factor, data),
        DType::Int16 => numbers::<i16>(factor, data),
        DType::Int32 => numbers::<i32>(factor, data),
        DType::Int64 => numbers::<i64>(factor, data),
        DType::Float16 => half_floats::<f16>(factor, data),
        DType::Bfloat16 => half_floats::<bf16>(factor, data),
        DType::Float32 => numbers::<f32>(factor, data),
        DType::Float64 => numbers::<f64>(factor, data),
        DType::Bool => return Err(Error::CannotScale { dtype, factor }),
    }
    Ok(())
}

/// Fills `destination` with the elements of `source` multiplied by `factor`. A factor of exactly 1
/// copies the bytes.
pub fn copy_scaled(dtype: DType, factor: f64, source: &[u8], destination: &mut [u8]) -> Result<()> {
    whole_elements(dtype, source.len())?;
    expect_length("destination of a copy", source.len(), destination.len())?;
    if is_one(factor) {
        copy(source, destination);
        return Ok(());
    }
    match dtype {
        DType::Uint8 => copy_numbers::<u8>(factor, source, destination),
        DType::Int8 => copy_numbers::<i8>(factor, source, destination),
        DType::Uint16 => copy_numbers::<u16>(factor, source, destination),
        DType::Int16 => copy_numbers::<i16>(factor, source, destination),
        DType::Int32 => copy_numbers::<i32>(factor, source, destination),
        DType::Int64 => copy_numbers::<i64>(factor, source, destination),
        DType::Float16 => copy_half_floats::<f16>(factor, source, destination),
        DType::Bfloat16 => copy_half_floats::<bf16>(factor, source, destination),
        DType::Float32 => copy_numbers::<f32>(factor, source, destination),
        DType::Float64 => copy_numbers::<f64>(factor, source, destination),
        DType::Bool => return Err(Error::CannotScale { dtype, factor }),
    }
    Ok(())
}

/// Whether a factor changes nothing.
#[expect(
    clippy::float_cmp,
    reason = "the rule: only exactly 1 means that nothing is computed"
)]
pub(crate) fn is_one(factor: f64) -> bool {
    factor == 1.0
}

fn numbers<T: Element>(factor: f64, data: &mut [u8]) {
    sweep::map(data, |element: T| element.scaled(factor));
}

fn copy_numbers<T: Element>(factor: f64, source: &[u8], destination: &mut [u8]) {
    sweep::zip(destination, source, |_, element: T| element.scaled(factor));
}

/// A factor that is not a number could be one of many; half floats know only the plain one.
fn plain(factor: f64) -> f64 {
    if factor.is_nan() { f64::NAN } else { factor }
}

fn half_floats<H: HalfFloat>(factor: f64, data: &mut [u8]) {
    let factor = plain(factor);
    H::map(data, |element| element.scaled(factor));
}

fn copy_half_floats<H: HalfFloat>(factor: f64, source: &[u8], destination: &mut [u8]) {
    let factor = plain(factor);
    H::zip(destination, source, |_, element| element.scaled(factor));
}
