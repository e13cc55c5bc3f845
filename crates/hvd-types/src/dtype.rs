//! Element types of tensors. The numbers are Horovod's own and visible to Python; `bfloat16` is
//! new here and takes the next free one.

use std::fmt;

use crate::UnknownCode;

/// The type of one element of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum DType {
    Uint8 = 0,
    Int8 = 1,
    Uint16 = 2,
    Int16 = 3,
    Int32 = 4,
    Int64 = 5,
    Float16 = 6,
    Float32 = 7,
    Float64 = 8,
    Bool = 9,
    Bfloat16 = 10,
}

impl DType {
    /// Every type, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::Uint8,
        Self::Int8,
        Self::Uint16,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Bool,
        Self::Bfloat16,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool => 1,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::Bfloat16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// The lower-case word used in messages, the timeline and Python.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Bool => "bool",
            Self::Bfloat16 => "bfloat16",
        }
    }
}

impl TryFrom<u8> for DType {
    type Error = UnknownCode;

    fn try_from(value: u8) -> Result<Self, UnknownCode> {
        let unknown = UnknownCode {
            what: "data type",
            value: i64::from(value),
        };
        Self::ALL.get(usize::from(value)).copied().ok_or(unknown)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_strangers_are_refused() {
        for dtype in DType::ALL {
            assert_eq!(DType::try_from(dtype as u8), Ok(dtype));
        }
        assert_eq!(
            DType::try_from(11).unwrap_err().to_string(),
            "11 is not a known data type"
        );
    }
}
