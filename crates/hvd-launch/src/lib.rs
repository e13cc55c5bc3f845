//! The launcher as a library: from hosts to ranks ([`plan`]), from ranks to processes, their
//! output, their signals and their end ([`launch`]); and asking a job that runs ([`debug`]).
//!
//! [`launch`] is the whole of it for a caller: it takes a checked [`JobSpec`] and returns the exit
//! status of the job. Nothing here parses a command line, and nothing knows what a worker computes.
//! [`examine`] takes the same and only looks whether the job could run.
//! Ranks on other hosts are in the care of agents, see `remote`, with which the driver speaks over a
//! `link` each.

#![deny(unsafe_code)]

pub mod debug;
mod describe;
mod error;
mod exec;
mod link;
mod messages;
pub mod plan;
mod remote;
mod spec;

pub use describe::describe;
pub use error::{Error, HostTrouble, Result};
pub use exec::{driver_above, examine, launch, serve_as_agent, serve_drivers};
pub use hvd_rendezvous::AgentToken;
pub use hvd_types::printable;
pub use remote::{Calling, HostKeys, SshOptions};
pub use spec::{
    AgentsOption, FunctionMode, JobSpec, OutputOptions, RemoteOptions, ReportForm, Stamp, Verbosity,
};
