//! Jobs that `mpirun` or `jsrun` starts: `horovodrun --mpi` and `--jsrun` compose the command line,
//! run it, and end it. Runs in the driver's process, in place of a driver. The ranks know nothing of
//! `horovodrun`: they find their place as under an `mpirun` that was typed by hand.
//!
//! `detect.rs` asks `mpirun` for its version, which `implementation.rs` understands; `command.rs`
//! composes the line (`open_mpi.rs`, `hydra.rs`, with the text of `--mpi-args` split by `words.rs`)
//! and `environment.rs` its variables. For `jsrun`, `lsf.rs` asks about the allocation, `rankfile.rs`
//! divides its cores and `jsrun.rs` composes. `plan.rs` puts these together, `reach.rs` tries `ssh`
//! beforehand, `run.rs` runs the line and `describe.rs` prints it. `function.rs` is for
//! `horovod.run()`.

mod command;
mod describe;
mod detect;
mod environment;
mod function;
mod hydra;
mod implementation;
mod jsrun;
mod lsf;
mod open_mpi;
mod plan;
mod rankfile;
mod reach;
mod run;
#[cfg(test)]
mod tests;
mod words;

pub use describe::describe;

use std::{
    io::{self, Write},
    path::Path,
};

use hvd_types::printable;
use tokio::time::timeout;

use self::{
    function::FunctionStore,
    plan::Plan,
    run::{LauncherEnd, LauncherProcess},
};
use crate::{
    error::{Error, Result},
    messages,
    process::{Interrupts, Reaper},
    spec::{JobSpec, Verbosity},
};

/// Who starts the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RankLauncher {
    /// The `mpirun` on PATH.
    #[default]
    Mpirun,
    /// `jsrun`, inside an LSF allocation.
    Jsrun,
}

/// What was said about a job that is not started by `horovodrun` itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MpiOptions {
    /// Who starts the ranks.
    pub launcher: RankLauncher,
    /// `--mpi-args`: added to the command line.
    pub arguments: Option<String>,
    /// `--binding-args`: stands in for the default binding.
    pub binding: Option<String>,
    /// `--tcp`: no InfiniBand.
    pub tcp: bool,
    /// `-np` as typed; for a job whose hosts are those of the allocation.
    pub ranks: Option<u32>,
}

/// Runs the job and returns its exit status. `scratch` is a path for one file, which the caller
/// removes.
pub(crate) async fn run(
    spec: &JobSpec,
    options: &MpiOptions,
    interrupts: &mut Interrupts,
    scratch: &Path,
) -> Result<i32> {
    let reaper = Reaper::start()?;
    let prepared = tokio::select! {
        prepared = timeout(spec.start_timeout, prepare(spec, options, &reaper, scratch)) => prepared,
        signal = interrupts.next() => return Ok(LauncherEnd::Interrupted(signal).status()),
    };
    let overrun = |_| Error::StartTimeout {
        phase: "mpirun",
        limit: spec.start_timeout,
    };
    let (plan, function) = prepared.map_err(overrun)??;
    if spec.verbosity == Verbosity::Verbose {
        say(&messages::running_line(&plan.title(), &plan.line.text()));
    }
    let launcher = LauncherProcess::start(&plan.line, &reaper)?;
    let end = launcher.wait(interrupts).await;
    let LauncherEnd::Ended(exit) = end else {
        return Ok(end.status());
    };
    let is_told = match function {
        Some(function) => tokio::select! {
            told = function.finish(exit) => told?,
            signal = interrupts.next() => return Ok(LauncherEnd::Interrupted(signal).status()),
        },
        None => false,
    };
    if exit.is_failure() && !is_told {
        say(&messages::launcher_failed(plan.program(), exit));
    }
    Ok(end.status())
}

/// Everything before the line can run.
async fn prepare(
    spec: &JobSpec,
    options: &MpiOptions,
    reaper: &Reaper,
    scratch: &Path,
) -> Result<(Plan, Option<FunctionStore>)> {
    let mut plan = Plan::make(spec, options, reaper, scratch).await?;
    let function = FunctionStore::open(spec, scratch).await?;
    if let Some(function) = &function {
        function.add_location_to(&mut plan.line.environment);
    }
    if options.launcher == RankLauncher::Mpirun {
        reach::check(spec, reaper).await?;
    }
    if let Some(text) = &plan.rankfile {
        std::fs::write(scratch, text).map_err(|source| Error::Rankfile {
            path: scratch.to_owned(),
            source,
        })?;
    }
    Ok((plan, function))
}

fn say(text: &str) {
    let text = printable(text).into_owned();
    // The job goes on without a reader of our words.
    let _ = io::stderr().write_all(text.as_bytes());
}
