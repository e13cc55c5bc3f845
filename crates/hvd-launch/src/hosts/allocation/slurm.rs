//! A Slurm job: `SLURM_JOB_NODELIST` names its nodes, `n[1-3,07-09],gpu1`, and one of several
//! variables their slots. The first of these that is set decides, as salloc and sbatch of Slurm
//! 22.05 set them:
//!
//! 1. The user asked for tasks (`SLURM_NTASKS` or `SLURM_NTASKS_PER_NODE`): as many as
//!    `SLURM_TASKS_PER_NODE` says. Without the request it counts nodes and means nothing.
//! 2. The user asked for GPUs: one slot for each, by `SLURM_GPUS_PER_NODE`, by
//!    `SLURM_GPUS_ON_NODE` of a batch script, or by `SLURM_GPUS` if that divides by the nodes.
//! 3. `SLURM_JOB_CPUS_PER_NODE`, divided by `SLURM_CPUS_PER_TASK` if that was asked for.

mod counts;
mod node_list;

use hvd_config::Environment;

use super::{Allocation, Scheduler, merge, number, unreadable};
use crate::error::{Error, Result};

const NODE_LISTS: [&str; 2] = ["SLURM_JOB_NODELIST", "SLURM_NODELIST"];
const STEP_TASKS: &str = "SLURM_STEP_NUM_TASKS";

/// The job that the variables describe.
pub(super) fn find(environment: &Environment) -> Result<Option<Allocation>> {
    let ids = ["SLURM_JOB_ID", "SLURM_JOBID"];
    let Some(job) = ids.iter().find_map(|name| environment.text(name)) else {
        return Ok(None);
    };
    let lists = NODE_LISTS.iter();
    let mut lists = lists.filter_map(|&name| Some((name, environment.text(name)?)));
    let Some((variable, list)) = lists.next() else {
        return Ok(None);
    };
    check_step(environment, job)?;
    let nodes = node_list::expand(list).map_err(unreadable(Scheduler::Slurm, variable, list))?;
    let slots = slots(environment, nodes.len())?;
    let parts = nodes.into_iter().zip(slots.each);
    let hosts = merge(parts).map_err(unreadable(Scheduler::Slurm, variable, list))?;
    Ok(Some(Allocation {
        scheduler: Scheduler::Slurm,
        job: job.to_owned(),
        hosts,
        slots_from: slots.variable,
    }))
}

/// `srun -n 4 horovodrun ...` would be four jobs, each on all nodes.
fn check_step(environment: &Environment, job: &str) -> Result<()> {
    let tasks = environment
        .text(STEP_TASKS)
        .and_then(|text| number(text).ok());
    match tasks {
        Some(tasks) if tasks > 1 => Err(Error::StartedByStep {
            tasks,
            job: job.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The slots of each node, and the variable that says so.
struct SlotCounts {
    variable: &'static str,
    each: Vec<u32>,
}

fn slots(environment: &Environment, nodes: usize) -> Result<SlotCounts> {
    let asked = ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"];
    if asked.iter().any(|name| environment.text(name).is_some())
        && let Some(slots) = counted(environment, "SLURM_TASKS_PER_NODE", nodes)?
    {
        return Ok(slots);
    }
    if let Some(slots) = gpus(environment, nodes)? {
        return Ok(slots);
    }
    let cpus = counted(environment, "SLURM_JOB_CPUS_PER_NODE", nodes)?;
    let Some(mut cpus) = cpus else {
        // A list without any number: one slot on each node.
        let each = vec![1; nodes];
        let variable = NODE_LISTS[0];
        return Ok(SlotCounts { variable, each });
    };
    let name = "SLURM_CPUS_PER_TASK";
    if let Some(text) = environment.text(name) {
        let divisor = number(text).map_err(unreadable(Scheduler::Slurm, name, text))?;
        for slots in &mut cpus.each {
            *slots = (*slots / divisor.max(1)).max(1);
        }
    }
    Ok(cpus)
}

/// One slot for each GPU.
fn gpus(environment: &Environment, nodes: usize) -> Result<Option<SlotCounts>> {
    for variable in ["SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"] {
        let Some(text) = environment.text(variable) else {
            continue;
        };
        let count = gpu_count(text).map_err(unreadable(Scheduler::Slurm, variable, text))?;
        let each = vec![count; nodes];
        return Ok(Some(SlotCounts { variable, each }));
    }
    let variable = "SLURM_GPUS";
    let Some(text) = environment.text(variable) else {
        return Ok(None);
    };
    let wrong = unreadable(Scheduler::Slurm, variable, text);
    let all = gpu_count(text).map_err(&wrong)?;
    let count = u32::try_from(nodes).unwrap_or(u32::MAX);
    if !all.is_multiple_of(count) {
        return Err(wrong(format!(
            "{all} GPUs on {count} nodes: it does not say how many each node has"
        )));
    }
    let each = vec![all / count; nodes];
    Ok(Some(SlotCounts { variable, each }))
}

/// `4`, `a100:4`, or the sum of `a100:2,v100:2`.
fn gpu_count(text: &str) -> Result<u32, String> {
    let count = |item: &str| number(item.rsplit(':').next().unwrap_or(item).trim());
    text.split(',').try_fold(0_u32, |sum, item| {
        Ok::<u32, String>(sum.saturating_add(count(item)?))
    })
}

/// A variable of the form `4(x2),2`.
fn counted(
    environment: &Environment,
    variable: &'static str,
    nodes: usize,
) -> Result<Option<SlotCounts>> {
    let Some(text) = environment.text(variable) else {
        return Ok(None);
    };
    let each = counts::expand(text, nodes).map_err(unreadable(Scheduler::Slurm, variable, text))?;
    Ok(Some(SlotCounts { variable, each }))
}
