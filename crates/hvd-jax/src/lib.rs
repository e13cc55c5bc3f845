//! JAX's view of the engine: a handler that compiled programs call.
//!
//! Nothing of XLA is needed to build this. JAX is given the address of a function ([`handler`]);
//! XLA calls it with everything it needs, its own functions included ([`ffi`]). One handler serves
//! all [`collective`]s: attributes of the call say which one is meant.
//!
//! The thread that calls carries the operation out itself if the other ranks are ready; it is
//! XLA's, so it is given back after a while, and the operation ends [later](pending).
//!
//! Must not know: Python, or how an engine is started.

#![deny(unsafe_code)]

mod collective;
mod dtype;
mod error;
mod ffi;
mod pending;

pub use ffi::handler;
