//! A parallel job of Grid Engine: `PE_HOSTFILE` is a file with a line `host slots queue processors`
//! for each host, or several for a host that serves it from several queues.

use hvd_config::Environment;

use super::{Allocation, ReadFile, Scheduler, file_of, merge, number, unreadable};
use crate::error::Result;

const HOST_FILE: &str = "PE_HOSTFILE";

/// The job that the variables describe.
pub(super) fn find(
    environment: &Environment,
    read_file: ReadFile<'_>,
) -> Result<Option<Allocation>> {
    let Some(path) = environment.text(HOST_FILE) else {
        return Ok(None);
    };
    let text = file_of(Scheduler::Sge, HOST_FILE, path, read_file)?;
    let parts: Result<Vec<(String, u32)>, String> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(part)
        .collect();
    let hosts = parts.and_then(merge);
    Ok(Some(Allocation {
        scheduler: Scheduler::Sge,
        job: environment.text("JOB_ID").unwrap_or_default().to_owned(),
        hosts: hosts.map_err(unreadable(Scheduler::Sge, HOST_FILE, path))?,
        slots_from: HOST_FILE,
    }))
}

/// The host of one line and its slots.
fn part(line: &str) -> Result<(String, u32), String> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        (Some(host), Some(slots)) => Ok((host.to_owned(), number(slots)?)),
        _ => Err(format!("the line `{}` has no number of slots", line.trim())),
    }
}
