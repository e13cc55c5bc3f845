//! Everything that touches MXNet's memory or calls its functions, behind safe types: the loaded
//! [`api`], an [`array`] and the memory it has, the operations that are [`push`]ed to MXNet's
//! engine, and the [`exception`] by which one of them fails.
//!
//! Must not know: what the operations do.

#![expect(
    unsafe_code,
    reason = "MXNet's C API is functions and pointers found at run time"
)]

mod api;
mod array;
mod exception;
mod layout;
mod push;

pub(crate) use api::is_synchronous;
pub use api::{EngineType, load};
pub(crate) use array::{Access, Array, leave_distinct};
pub(crate) use push::{Push, PushCompletion, push};
