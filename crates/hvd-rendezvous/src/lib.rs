//! How the ranks of a job find and authenticate each other.
//!
//! [`JobKey`] is the job's secret, [`handshake`] proves knowledge of it on a fresh connection and
//! agrees on the keys of the [`SecureSession`] that protects everything after, and [`Store`] is the
//! key-value store through which ranks exchange their addresses: served by [`Server`] in the
//! launcher, reached by [`Client`], or kept inside one process by [`MemoryStore`].
//!
//! Must not know: tensors, transports, processes.

#![forbid(unsafe_code)]

pub mod accept;
pub mod blame;
mod client;
pub mod deadline;
mod error;
mod exchange;
pub mod frame;
pub mod handshake;
mod hang_up;
mod host_identity;
mod key;
pub mod limits;
mod memory;
mod noise;
pub mod objects;
mod protocol;
mod server;
pub mod session;
mod shared_store;
pub mod status_query;
mod store;
mod threads;
mod token;

pub use client::{Client, HangUp};
pub use error::{Error, Result};
pub use handshake::Purpose;
pub use host_identity::host_identity;
pub use key::JobKey;
pub use memory::MemoryStore;
pub use server::Server;
pub use session::SecureSession;
pub use store::Store;
pub use token::{AgentToken, TokenError};
