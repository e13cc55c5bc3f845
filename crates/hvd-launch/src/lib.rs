//! The launcher as a library: from hosts to ranks ([`plan`]), from ranks to processes, their
//! output, their signals and their end ([`launch`]).
//!
//! [`launch`] is the whole of it for a caller: it takes a checked [`JobSpec`] and returns the exit
//! status of the job. Nothing here parses a command line, and nothing knows what a worker computes.
//! Today every rank runs on this machine; a remote host is one more way to start and signal a
//! group of ranks, below [`plan`] and beside `exec/worker.rs`.

#![deny(unsafe_code)]

mod error;
mod exec;
mod link;
mod messages;
pub mod plan;
pub mod remote;
mod spec;

pub use error::{Error, Result};
pub use exec::launch;
pub use spec::{FunctionMode, JobSpec, OutputOptions, Stamp, Verbosity};
