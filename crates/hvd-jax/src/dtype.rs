//! XLA's numbers of element types.

use hvd_types::DType;

use crate::error::{Error, Result};

/// The type that XLA gives this number in `xla/ffi/api/c_api.h`.
pub(crate) fn from_number(number: i32) -> Result<DType> {
    Ok(match number {
        1 => DType::Bool,
        2 => DType::Int8,
        3 => DType::Int16,
        4 => DType::Int32,
        5 => DType::Int64,
        6 => DType::Uint8,
        7 => DType::Uint16,
        10 => DType::Float16,
        11 => DType::Float32,
        12 => DType::Float64,
        16 => DType::Bfloat16,
        other => {
            let problem = format!("arrays of XLA's element type {other} cannot be moved");
            return Err(Error::Argument(problem));
        }
    })
}
