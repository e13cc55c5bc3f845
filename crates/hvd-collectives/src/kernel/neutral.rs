//! The elements that change nothing, for a member that takes part without values of its own.

use half::{bf16, f16};
use hvd_types::DType;

use super::{Reduction, sweep, whole_elements};
use crate::Result;

macro_rules! integer {
    ($reduction:expr, $type:ty) => {
        match $reduction {
            Reduction::Sum => 0,
            Reduction::Product => 1,
            Reduction::Min => <$type>::MAX,
            Reduction::Max => <$type>::MIN,
        }
    };
}

/// Fills `data` with the neutral element of a reduction: whatever it is reduced with stays as it
/// is, on either side, and "not a number" stays none.
///
/// - Sum: 0. For floats that is -0, the only zero that also leaves both zeros as they are.
/// - Product: 1.
/// - Minimum: the largest value, for floats infinity; maximum: the smallest.
/// - `bool`: false for sum and maximum, true for product and minimum.
pub fn fill_neutral(dtype: DType, reduction: Reduction, data: &mut [u8]) -> Result<()> {
    whole_elements(dtype, data.len())?;
    match dtype {
        DType::Uint8 => fill(data, integer!(reduction, u8)),
        DType::Int8 => fill(data, integer!(reduction, i8)),
        DType::Uint16 => fill(data, integer!(reduction, u16)),
        DType::Int16 => fill(data, integer!(reduction, i16)),
        DType::Int32 => fill(data, integer!(reduction, i32)),
        DType::Int64 => fill(data, integer!(reduction, i64)),
        DType::Float16 => fill(data, f16::from_f32(float(reduction))),
        DType::Bfloat16 => fill(data, bf16::from_f32(float(reduction))),
        DType::Float32 => fill(data, float(reduction)),
        DType::Float64 => fill(data, f64::from(float(reduction))),
        DType::Bool => data.fill(match reduction {
            Reduction::Sum | Reduction::Max => 0,
            Reduction::Product | Reduction::Min => 1,
        }),
    }
    Ok(())
}

fn fill<T: bytemuck::Pod>(data: &mut [u8], neutral: T) {
    sweep::map(data, |_: T| neutral);
}

fn float(reduction: Reduction) -> f32 {
    match reduction {
        Reduction::Sum => -0.0,
        Reduction::Product => 1.0,
        Reduction::Min => f32::INFINITY,
        Reduction::Max => f32::NEG_INFINITY,
    }
}
