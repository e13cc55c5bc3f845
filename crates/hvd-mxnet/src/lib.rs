//! MXNet's view of the engine: collectives pushed to MXNet's own dependency engine.
//!
//! Nothing of MXNet is needed to build this. Its C API is looked up in the library that the process
//! has loaded ([`ffi`]). [`start`] pushes an operation that MXNet runs when its arrays are ready; it
//! submits to the process's engine, returns, and is completed by the engine's callback, so no thread
//! waits. [`run`] is for results whose length only the ranks together know: the caller waits.
//!
//! Must not know: Python, or how an engine is started.

#![deny(unsafe_code)]

mod dtype;
mod error;
mod ffi;
mod operation;
mod run;
mod start;

pub use error::Error;
pub use ffi::{EngineType, load};
pub use operation::CollectiveCall;
pub use run::{Outputs, PendingRun, run};
pub use start::{Target, start};
