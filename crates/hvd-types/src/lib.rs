//! The words of the domain, shared by every other crate: who a process is ([`Rank`],
//! [`Ranks`], [`Placement`], [`Topology`]), what a tensor is ([`DType`], [`Shape`], [`Device`]) and what is done with it
//! ([`OpKind`], [`ReduceOp`]); and how the text of one process is quoted by another ([`printable`]).
//!
//! Nothing here does input or output, starts a thread or reads a clock.

#![forbid(unsafe_code)]

mod device;
mod dtype;
mod operation;
mod placement;
mod printable;
mod rank;
mod ranks;
mod shape;
mod topology;

pub use device::Device;
pub use dtype::DType;
pub use operation::{OpKind, ReduceOp};
pub use placement::Placement;
pub use printable::printable;
pub use rank::{ProcessSetId, Rank};
pub use ranks::Ranks;
pub use shape::Shape;
pub use topology::{Location, Topology};

/// A number that stands for no member of an enumeration, as found on the wire or in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{value} is not a known {what}")]
pub struct UnknownCode {
    /// What the number was meant to be, e.g. `data type`.
    pub what: &'static str,
    /// The number itself.
    pub value: i64,
}
