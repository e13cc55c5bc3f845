//! The launcher as a library: from hosts to ranks, from ranks to processes, their output, their
//! signals and their end ([`launch`]); and status queries to a running job ([`debug`]).
//!
//! For a caller [`launch`] is all of it: it takes a checked [`JobSpec`] and returns the exit status
//! of the job. [`check_hosts`] takes the same and only checks whether the job could run. Nothing
//! here parses a command line, and nothing knows what a worker computes.
//!
//! Code is sorted by the process it runs in. A module uses only modules below it in this table;
//! `cargo xtask tidy` checks that (`xtask/src/launcher_modules.rs`).
//!
//! | module | process | machine |
//! |---|---|---|
//! | `supervisor/` | the one the user or `ssh` started; forks the driver or the agent | every host |
//! | `agent/` | agent: starts and watches the ranks of its host | every host but the driver's |
//! | `doctor/` | driver of `horovodrun doctor`, in place of a job | where `horovodrun` was started |
//! | `mpirun/` | in place of a driver: composes and runs `mpirun` or `jsrun`, which start the ranks | where `horovodrun` was started |
//! | `driver/` | driver: owns the job, and the ranks of its own host | where `horovodrun` was started |
//! | `dry_run.rs` | the one the user started, with `--dry-run` | where `horovodrun` was started |
//! | `debug/` | `responder.rs` in the driver, or in rank 0 of a job without one; `client.rs` in `horovodrun debug` | the driver's, or rank 0's |
//! | `output/` | driver; an agent only reads pipes | the driver's; every host |
//! | `protocol/`, `link/` | both ends: driver and agent | every host |
//! | `spec.rs` | all: the job as plain data | any |
//! | `hosts/` | driver and agent: host lists, allocations, addresses, facts, command lines of `ssh` and `srun` | any |
//! | `messages.rs`, `error.rs`, `text/` | all: what people read | any |
//! | `process/` | supervisor, driver and agent: processes of this machine | any |
//!
//! What comes next has its place:
//!
//! - Elastic jobs: `driver/elastic/`, which decides which hosts and ranks a job has now, over the
//!   `driver/fleet.rs` that connects them; `driver/lifecycle.rs` stays the state of one set of ranks.
//! - Other ways to start agents: one file each in `hosts/starter/`, beside `srun.rs`. Ranks that
//!   `srun` or `mpirun` start without `horovodrun` have no launcher.
//! - `horovodrun cluster`: `cluster/`, beside `doctor/`: a driver without a job.

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
mod mpirun;
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
pub use hosts::{
    Starter,
    ssh::{HostKeys, SshOptions},
};
pub use hvd_rendezvous::AgentToken;
pub use hvd_types::printable;
pub use mpirun::{MpiOptions, RankLauncher, describe as describe_mpi};
pub use process::{
    container::{ContainerOptions, ContainerRuntime},
    driver_above,
};
pub use spec::{
    AgentsOption, FunctionMode, JobSpec, OutputOptions, RemoteOptions, ReportFormat, Stamp,
    Verbosity,
};
pub use supervisor::{check_hosts, launch, launch_mpi, serve_as_agent, serve_drivers};
