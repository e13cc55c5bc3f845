//! The negotiation's messages as bytes: [`Ready`] from a rank to the coordinator, [`Gathered`] from
//! many ranks by way of one, [`Verdict`] from the coordinator to every rank, [`Note`] between ranks
//! that need no negotiation, and the [`frame`]s that carry them; and the [`snapshot`] of a rank for
//! diagnosis.
//!
//! Numbers are little-endian; texts and lists are preceded by a 32-bit count, checked against the
//! bytes that are really there before anything is allocated. Both ends run the same version of
//! this crate (the launcher checks that), so there is no versioning inside a message.
//!
//! Must not know: sockets, or who sends what when.

#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error;
pub mod frame;
mod gathered;
mod message;
pub mod snapshot;

pub use error::{Error, Result};
pub use gathered::{Gathered, Part, SharedRequest};
pub use message::{
    CacheId, Halted, Kind, Member, Note, Operation, Plan, PlanVerdict, Ready, Request, Response,
    SetChange, SetVerdict, TensorPlan, Tuned, Verdict,
};
