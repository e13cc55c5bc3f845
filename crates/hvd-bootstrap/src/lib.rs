//! How a rank finds its job when `horovodrun` did not start it: under `mpirun`, `mpiexec`, `srun`,
//! `jsrun`, `torchrun`, or by hand.
//!
//! 1. The variables of launchers say which rank this is ([`detection`], [`launchers`]).
//! 2. Rank 0 starts the job's key-value store with a fresh key. Where it listens, and the key, are
//!    its *announcement* ([`announcement`]), which reaches the other ranks through what the launcher
//!    offers ([`facility`]): PMIx, PMI, or a file in a directory that all ranks see.
//! 3. In the store the ranks agree which of them share a host, and hosts try each other's addresses
//!    ([`placement_exchange`]), as agents of `horovodrun` do.
//!
//! The result is the same set of variables that `horovodrun` gives to a rank ([`FoundJob`]); nothing
//! after this crate knows the difference.
//!
//! Must not know: the engine, tensors, Python, MPI libraries.

#![deny(unsafe_code)]

mod announcement;
mod detection;
mod error;
mod facility;
mod hidden;
mod host;
mod job;
mod launchers;
mod loaded;
mod os;
mod placement_exchange;
mod store;
mod subset;

pub use error::{Error, Result};
pub use job::{Announced, FoundJob, announce, find, find_subset, join, run_helper};
