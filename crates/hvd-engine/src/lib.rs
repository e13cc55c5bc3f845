//! What one rank does: submit, negotiate, fuse, execute, complete. The modules stand in the order
//! of that flow; ARCHITECTURE.md describes the life of one allreduce through them.
//!
//! Callers on any thread use [`Engine`]. Behind it one thread at a time has all state of the
//! negotiation and runs [`cycle`]: the thread `hvd-engine`, or a caller that waits
//! ([`cycle_owner`]).
//!
//! Must not know: Python, frameworks, processes, environment variables, or files other than the
//! timeline, the dump of the flight recorder and the log of autotuning.

#![deny(unsafe_code)]

mod affinity;
mod callback;
mod engine;
mod hash;
mod submit;
mod tensor;

mod queue;

mod autotune;
mod control;
mod cycle;
mod cycle_owner;
mod local_set;
mod negotiate;
mod process_set;
mod process_set_table;
mod schedule;
mod submissions;
#[cfg(test)]
mod test_entries;

mod execute;
mod fusion;

pub mod negotiation;

mod counters;
mod observe;
mod output_file;
mod recorder;
mod stall;
mod timeline;

mod error;
mod handle;
mod worker;

pub use affinity::{Core, UnusableCore};
pub use autotune::{AutotuneOptions, Choice, Dimension};
pub use counters::Counts;
pub use engine::{Engine, EngineOptions, ExitReport};
pub use error::{Error, ErrorClass, Result};
pub use execute::team::Hierarchy;
pub use fusion::batches::GroupFusion;
pub use handle::{Completion, Handle, LastHandles, OperationOutput, OperationProgress};
pub use hvd_wire::{SetChange, snapshot};
pub use negotiate::coordinator::JoinDivisor;
pub use process_set::ProcessSets;
pub use recorder::FlightLog;
pub use stall::StallOptions;
pub use submit::{ArgumentError, LONGEST_NAME, Submission, Unsupported};
pub use tensor::{Buffer, TensorSource, TensorTarget};
pub use worker::{FindWorker, Worker, current_worker, set_find_worker};
