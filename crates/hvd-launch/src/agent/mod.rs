//! The agent of a host: a process on each host but the driver's own, started through `ssh` or
//! beforehand, that starts and watches the ranks of its host for the driver.
//!
//! `entry.rs` comes to an assignment, over standard input and output (`stdio.rs`) or by calling the
//! driver (`driver_connection.rs`); `serve.rs` carries it out; `store_port.rs` is where the ranks of
//! the host reach the driver's key-value store.

pub(crate) mod driver_connection;
mod entry;
mod serve;
mod stdio;
pub(crate) mod store_port;

pub use entry::Calling;
pub(crate) use entry::{NO_DRIVER, call, serve};
