//! What one rank does: submit, negotiate, fuse, execute, complete. The modules stand in the order
//! of that flow; ARCHITECTURE.md tells the life of one allreduce through them.
//!
//! Callers on any thread use [`Engine`]. Behind it one thread at a time has all state of the
//! negotiation and runs [`cycle`]: the thread `hvd-engine`, or a caller that waits ([`helm`]).
//!
//! Must not know: Python, frameworks, processes, environment variables, or files other than the
//! timeline, the dump of the flight recorder and the log of autotuning.

#![deny(unsafe_code)]

mod affinity;
mod engine;
mod submit;
mod tables;
mod tensor;
mod unattended;

mod queue;

mod autotune;
mod control;
mod cycle;
mod helm;
mod local_set;
mod negotiate;
mod plan;
mod process_set;

mod execute;
mod fusion;

pub mod simulate;

mod counters;
mod observe;
mod output_file;
mod recorder;
mod stall;
mod timeline;

mod error;
mod handle;

pub use affinity::{Core, UnusableCore};
pub use autotune::{AutotuneOptions, Choice, Dimension};
pub use counters::Counts;
pub use engine::{Engine, EngineOptions, Farewell};
pub use error::{Error, ErrorClass, Result};
pub use execute::team::Hierarchy;
pub use fusion::plan::GroupFusion;
pub use handle::{Completion, Handle, LastHandles, Outcome, Progress};
pub use hvd_wire::{SetChange, snapshot};
pub use negotiate::coordinator::JoinAverage;
pub use process_set::ProcessSets;
pub use recorder::FlightLog;
pub use stall::StallOptions;
pub use submit::{ArgumentError, LONGEST_NAME, Submission, Unsupported};
pub use tensor::{Buffer, Source, Target};
