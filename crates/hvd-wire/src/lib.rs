//! The messages of the negotiation as bytes: [`RequestList`] from a rank to the coordinator,
//! [`MergedRequestLists`] from a relay for the ranks below it, [`ResponseList`] from the coordinator
//! to every rank, [`ReadyNotice`] between ranks that follow a schedule, and the [`frame`]s that carry
//! them; and the answer of a rank to a status query ([`snapshot`]).
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
mod merged;
mod message;
pub mod snapshot;

pub use error::{Error, Result};
pub use merged::{MergedRequestLists, SharedRequest, SharedRequestList};
pub use message::{
    CacheId, MessageKind, Operation, ReadyNotice, Request, RequestList, Response, ResponseList,
    Schedule, ScheduleCommand, ScheduleHalt, SetChange, SetChangeResult, TensorRef, TensorSpec,
    Tuned,
};
