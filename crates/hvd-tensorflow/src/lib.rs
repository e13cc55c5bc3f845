//! TensorFlow's view of the engine: op definitions and asynchronous kernels.
//!
//! Nothing of TensorFlow is needed to build this. Its C API is looked up in the library that the
//! process has loaded ([`ffi`]), the ops are registered once ([`register`]), and from then on
//! TensorFlow calls the [`kernels`], which submit to the process's engine and return at once.
//!
//! Must not know: Python, or how an engine is started.

#![deny(unsafe_code)]

mod dtype;
mod error;
mod ffi;
mod kernels;

pub use error::Error;

/// Makes the ops known to the TensorFlow that this process has loaded; does nothing the second
/// time.
pub fn register() -> error::Result<()> {
    kernels::register_all()
}

/// The names of all ops.
pub fn op_names() -> Vec<&'static str> {
    kernels::names()
}
