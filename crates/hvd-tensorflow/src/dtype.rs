//! TensorFlow's numbers of element types.

use hvd_types::DType;

use crate::error::{Error, Result};

/// Ours and TensorFlow's, from `tensorflow/c/tf_datatype.h`.
const TYPES: [(DType, i32); 11] = [
    (DType::Float32, 1),
    (DType::Float64, 2),
    (DType::Int32, 3),
    (DType::Uint8, 4),
    (DType::Int16, 5),
    (DType::Int8, 6),
    (DType::Int64, 9),
    (DType::Bool, 10),
    (DType::Bfloat16, 14),
    (DType::Uint16, 17),
    (DType::Float16, 19),
];

/// TensorFlow's number of a type.
pub(crate) fn number(dtype: DType) -> i32 {
    let found = TYPES.iter().find(|(ours, _)| *ours == dtype);
    found.map_or(0, |(_, number)| *number)
}

/// The type with a number.
pub(crate) fn from_number(number: i32) -> Result<DType> {
    let found = TYPES.iter().find(|(_, theirs)| *theirs == number);
    found
        .map(|(ours, _)| *ours)
        .ok_or_else(|| Error::Argument(format!("TensorFlow's data type {number} is not supported")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_number_of_its_own() {
        for dtype in DType::ALL {
            assert_eq!(from_number(number(dtype)).unwrap(), dtype);
        }
        assert!(from_number(7).is_err(), "strings");
    }
}
