//! Bytes between ranks.
//!
//! [`Transport`] is the one seam: ordered, reliable bytes between every pair of ranks on two
//! lanes, [`Lane::Control`] for the negotiation and [`Lane::Data`] for tensors. Its kinds are
//! [`mem`] (ranks as threads, for tests), shared memory and TCP. Every wait ends by progress, by a
//! deadline or by [`Abort`].
//!
//! Must not know: tensors, data types, operations, Python.

#![deny(unsafe_code)]

mod abort;
mod error;
pub mod mem;
mod transport;

pub use abort::{Abort, Failure, Waker};
pub use error::{Error, Result};
pub use transport::{Interest, Lane, Transport, Wake};
