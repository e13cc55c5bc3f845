//! `--dry-run` of a job that `mpirun` or `jsrun` starts: a script for a shell that does the same,
//! with the variables that differ from those of this shell. Nothing is started but what says which
//! MPI this is.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::Path,
};

use super::{MpiOptions, environment::tells_a_place, plan::Plan};
use crate::{
    error::{Error, Result},
    hosts::ssh::quote,
    process::Reaper,
    spec::JobSpec,
};

/// Where the script of a dry run keeps the rankfile.
const RANKFILE: &str = "horovod.rankfile";

/// The script.
///
/// # Errors
/// When there is no `mpirun`, or the job cannot be said to it.
pub fn describe(spec: &JobSpec, options: &MpiOptions) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("start the runtime"))?;
    let plan = runtime.block_on(async {
        let reaper = Reaper::start()?;
        Plan::make(spec, options, &reaper, Path::new(RANKFILE)).await
    });
    runtime.shutdown_background();
    plan.map(|plan| script(spec, &plan))
}

fn script(spec: &JobSpec, plan: &Plan) -> String {
    let directory = quote(&spec.directory.to_string_lossy());
    let mut text = format!("# {}, in {directory}:\n", plan.title());
    if let Some(rankfile) = &plan.rankfile {
        let _ = write!(text, "cat > {RANKFILE} <<'END'\n{rankfile}END\n");
    }
    let changes = changes(spec, plan);
    if !changes.is_empty() {
        let _ = write!(text, "env {} ", changes.join(" "));
    }
    let _ = writeln!(text, "{}", plan.line.text());
    text
}

/// Arguments of `env` that make of this shell's environment that of the line, as far as it matters:
/// leftovers of the shell and what cannot be said to one stay as they are.
fn changes(spec: &JobSpec, plan: &Plan) -> Vec<String> {
    let theirs = &plan.line.environment;
    let own = |name: &OsStr| spec.inherited.iter().find(|(variable, _)| variable == name);
    let removed = spec.inherited.iter().map(|(variable, _)| variable);
    let removed = removed
        .filter(|variable| tells_a_place(variable))
        .filter_map(|variable| Some(format!("-u {}", quote(variable.to_str()?))));
    let is_new = |(variable, value): &(&OsString, &OsString)| {
        own(variable).is_none_or(|(_, inherited)| inherited != *value)
    };
    let added = theirs
        .iter()
        .filter(is_new)
        .filter_map(|(variable, value)| {
            Some(format!("{}={}", variable.to_str()?, quote(value.to_str()?)))
        });
    removed.chain(added).collect()
}
