//! Tensors between hosts through MPI, for networks that only it reaches.
//!
//! [`open`] finds the job's `libmpi`, opens it at run time and initializes it, unless the program
//! has done so (mpi4py). The [`Mpi`] that it returns is a
//! [`FabricSource`](hvd_transport::FabricSource): each session of the job gets streams of bytes to
//! the ranks of other hosts. At the end of the process MPI is finalized if it was initialized here and
//! the job ended well; after a failure it is aborted, because `MPI_Finalize` would wait for a rank
//! that is gone.
//!
//! Must not know: tensors, operations, Python, how ranks find each other.

#![deny(unsafe_code)]

mod error;
mod fabric;
mod ffi;
mod library_choice;
mod messages;
mod mpi;
mod search;
mod stream;
mod thread_level;

pub use error::{CallError, Error, Result};
pub use mpi::{Ending, Mpi, fabric_source, open, opened};
pub use thread_level::ThreadLevel;
