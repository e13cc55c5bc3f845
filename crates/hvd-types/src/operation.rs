//! What can be done with tensors: the collective operations and the reductions, with Horovod's
//! numbers.

use std::fmt;

use crate::UnknownCode;

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum OpKind {
    Allreduce = 0,
    Allgather = 1,
    Broadcast = 2,
    Join = 3,
    Adasum = 4,
    Alltoall = 5,
    Barrier = 6,
    Reducescatter = 7,
}

impl OpKind {
    /// Every operation, in the order of its number.
    pub const ALL: [Self; 8] = [
        Self::Allreduce,
        Self::Allgather,
        Self::Broadcast,
        Self::Join,
        Self::Adasum,
        Self::Alltoall,
        Self::Barrier,
        Self::Reducescatter,
    ];

    /// The lower-case word used in messages and in automatic tensor names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allreduce => "allreduce",
            Self::Allgather => "allgather",
            Self::Broadcast => "broadcast",
            Self::Join => "join",
            Self::Adasum => "adasum",
            Self::Alltoall => "alltoall",
            Self::Barrier => "barrier",
            Self::Reducescatter => "reducescatter",
        }
    }
}

impl TryFrom<u8> for OpKind {
    type Error = UnknownCode;

    fn try_from(value: u8) -> Result<Self, UnknownCode> {
        let unknown = UnknownCode {
            what: "operation",
            value: i64::from(value),
        };
        Self::ALL.get(usize::from(value)).copied().ok_or(unknown)
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How elements of several ranks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum ReduceOp {
    Average = 0,
    #[default]
    Sum = 1,
    Adasum = 2,
    Min = 3,
    Max = 4,
    Product = 5,
}

impl ReduceOp {
    /// Every reduction, in the order of its number.
    pub const ALL: [Self; 6] = [
        Self::Average,
        Self::Sum,
        Self::Adasum,
        Self::Min,
        Self::Max,
        Self::Product,
    ];

    /// The name under which Python exports it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Average => "Average",
            Self::Sum => "Sum",
            Self::Adasum => "Adasum",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::Product => "Product",
        }
    }
}

impl TryFrom<u8> for ReduceOp {
    type Error = UnknownCode;

    fn try_from(value: u8) -> Result<Self, UnknownCode> {
        let unknown = UnknownCode {
            what: "reduce operation",
            value: i64::from(value),
        };
        Self::ALL.get(usize::from(value)).copied().ok_or(unknown)
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_strangers_are_refused() {
        for kind in OpKind::ALL {
            assert_eq!(OpKind::try_from(kind as u8), Ok(kind));
        }
        for op in ReduceOp::ALL {
            assert_eq!(ReduceOp::try_from(op as u8), Ok(op));
        }
        assert!(OpKind::try_from(8).is_err());
        assert!(ReduceOp::try_from(6).is_err());
    }
}
