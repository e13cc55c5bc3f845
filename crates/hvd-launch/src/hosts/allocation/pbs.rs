//! A PBS or Torque job: `PBS_NODEFILE` is a file with one line per slot. PBS Professional writes as
//! many lines for a chunk as its `mpiprocs` says, 1 if it says nothing; Torque writes `ppn`.

use hvd_config::Environment;

use super::{Allocation, ReadFile, Scheduler, file_of, merge, unreadable};
use crate::error::Result;

const NODE_FILE: &str = "PBS_NODEFILE";

/// The job that the variables describe.
pub(super) fn find(
    environment: &Environment,
    read_file: ReadFile<'_>,
) -> Result<Option<Allocation>> {
    let Some(path) = environment.text(NODE_FILE) else {
        return Ok(None);
    };
    let text = file_of(Scheduler::Pbs, NODE_FILE, path, read_file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let hosts = merge(lines.map(|line| (line.to_owned(), 1)));
    Ok(Some(Allocation {
        scheduler: Scheduler::Pbs,
        job: environment.text("PBS_JOBID").unwrap_or_default().to_owned(),
        hosts: hosts.map_err(unreadable(Scheduler::Pbs, NODE_FILE, path))?,
        slots_from: NODE_FILE,
    }))
}
