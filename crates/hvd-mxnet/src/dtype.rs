//! MXNet's numbers of element types.

use hvd_types::DType;

use crate::error::{Error, Result};

/// Ours and MXNet's, from `mshadow/base.h`; the same since 1.6.
const TYPES: [(DType, i32); 11] = [
    (DType::Float32, 0),
    (DType::Float64, 1),
    (DType::Float16, 2),
    (DType::Uint8, 3),
    (DType::Int32, 4),
    (DType::Int8, 5),
    (DType::Int64, 6),
    (DType::Bool, 7),
    (DType::Int16, 8),
    (DType::Uint16, 9),
    (DType::Bfloat16, 12),
];

/// MXNet's number of a type.
pub(crate) fn number(dtype: DType) -> i32 {
    let found = TYPES.iter().find(|(ours, _)| *ours == dtype);
    found.map_or(-1, |(_, number)| *number)
}

/// The type with a number.
pub(crate) fn from_number(number: i32) -> Result<DType> {
    let found = TYPES.iter().find(|(_, theirs)| *theirs == number);
    found
        .map(|(ours, _)| *ours)
        .ok_or(Error::UnknownType(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_number_of_its_own() {
        for dtype in DType::ALL {
            assert_eq!(from_number(number(dtype)).unwrap(), dtype);
        }
        assert!(from_number(10).is_err(), "uint32");
    }
}
