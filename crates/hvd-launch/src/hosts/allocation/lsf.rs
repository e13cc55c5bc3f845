//! An LSF job: `LSB_DJOB_HOSTFILE` is a file with one line per slot, `LSB_MCPU_HOSTS` is `host
//! slots host slots ...`, `LSB_HOSTS` one word per slot; the first that is set is used.
//!
//! Where compute nodes cannot run the job's script, LSF puts a launch node first, with one slot. It
//! takes no ranks: it is left out if other hosts follow, it has one slot, and either the job is
//! one of IBM's CSM (`CSM_ALLOCATION_ID`) or the name begins with `batch`, `launch` or `login`.

use hvd_config::Environment;

use super::{Allocation, Host, ReadFile, Scheduler, file_of, merge, number, unreadable};
use crate::error::Result;

const HOST_FILE: &str = "LSB_DJOB_HOSTFILE";
const HOST_SLOTS: &str = "LSB_MCPU_HOSTS";
const HOSTS: &str = "LSB_HOSTS";

/// The beginnings of the names of launch nodes.
const LAUNCH_NODES: [&str; 3] = ["batch", "launch", "login"];

/// The job that the variables describe.
pub(super) fn find(
    environment: &Environment,
    read_file: ReadFile<'_>,
) -> Result<Option<Allocation>> {
    let Some(job) = environment.text("LSB_JOBID") else {
        return Ok(None);
    };
    let mut variables = [HOST_FILE, HOST_SLOTS, HOSTS].into_iter();
    let set = variables.find_map(|variable| Some((variable, environment.text(variable)?)));
    let Some((variable, text)) = set else {
        return Ok(None);
    };
    let wrong = unreadable(Scheduler::Lsf, variable, text);
    let hosts = match variable {
        HOST_FILE => merge(words(&file_of(Scheduler::Lsf, variable, text, read_file)?)),
        HOST_SLOTS => pairs(text).and_then(merge),
        _ => merge(words(text)),
    };
    let is_csm = environment.text("CSM_ALLOCATION_ID").is_some();
    Ok(Some(Allocation {
        scheduler: Scheduler::Lsf,
        job: job.to_owned(),
        hosts: without_launch_node(hosts.map_err(wrong)?, is_csm),
        slots_from: variable,
    }))
}

/// One slot for each word.
fn words(text: &str) -> Vec<(String, u32)> {
    let words = text.split_whitespace();
    words.map(|word| (word.to_owned(), 1)).collect()
}

fn pairs(text: &str) -> Result<Vec<(String, u32)>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pair = |pair: &[&str]| match pair {
        [host, slots] => Ok(((*host).to_owned(), number(slots)?)),
        _ => Err("a host at its end has no number of slots".to_owned()),
    };
    words.chunks(2).map(pair).collect()
}

fn without_launch_node(mut hosts: Vec<Host>, is_csm: bool) -> Vec<Host> {
    let is_launch_node = |host: &Host| {
        let is_named_so = LAUNCH_NODES
            .iter()
            .any(|beginning| host.name.starts_with(beginning));
        host.slots == 1 && (is_csm || is_named_so)
    };
    if hosts.len() > 1 && is_launch_node(&hosts[0]) {
        hosts.remove(0);
    }
    hosts
}
