//! The launcher as a library: from hosts to ranks, from ranks to processes, their output, their
//! signals and their end ([`launch`]); and asking a job that runs ([`debug`]).
//!
//! [`launch`] is the whole of it for a caller: it takes a checked [`JobSpec`] and returns the exit
//! status of the job. Nothing here parses a command line, and nothing knows what a worker computes.
//! [`check_hosts`] takes the same and only looks whether the job could run.

#![deny(unsafe_code)]

mod agent;
pub mod debug;
mod doctor;
mod driver;
mod dry_run;
mod error;
pub mod hosts;
mod link;
mod messages;
mod output;
mod process;
mod protocol;
mod spec;
mod supervisor;
#[cfg(test)]
mod tests;
mod text;

pub use agent::Calling;
pub use dry_run::describe;
pub use error::{Error, HostTrouble, Result};
pub use hosts::ssh::{HostKeys, SshOptions};
pub use hvd_rendezvous::AgentToken;
pub use hvd_types::printable;
pub use process::driver_above;
pub use spec::{
    AgentsOption, FunctionMode, JobSpec, OutputOptions, RemoteOptions, ReportFormat, Stamp,
    Verbosity,
};
pub use supervisor::{check_hosts, launch, serve_as_agent, serve_drivers};
