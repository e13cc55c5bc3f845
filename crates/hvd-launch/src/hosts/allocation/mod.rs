//! The hosts and slots that a batch system has given this job: Slurm, LSF, PBS or Torque, Grid
//! Engine; one file each. Reads variables and the files they name, and decides nothing about how
//! these hosts are reached (`driver/start_agent/`). Pure but for the reader of files it is given.
//!
//! - `ALLOC-1` hosts keep the order of the batch system, and each is listed once.
//! - `ALLOC-2` a text that cannot be understood is an error that names its variable; nothing is
//!   guessed from half of it.
//! - `ALLOC-3` variables of two batch systems are an error that names both.

mod lsf;
mod pbs;
mod sge;
mod slurm;
#[cfg(test)]
mod tests;

use std::{fmt, io, path::Path};

use hvd_config::Environment;
use hvd_types::Placement;

use super::{
    host_list::{Host, SLOTS_LIMIT, parse_name},
    slots::allocate,
};
use crate::error::{Error, Result};

/// Reads a file that a variable names.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// A batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// Slurm.
    Slurm,
    /// IBM Spectrum LSF.
    Lsf,
    /// PBS Professional, `OpenPBS`, Torque.
    Pbs,
    /// Grid Engine: Univa, Altair, Son of.
    Sge,
}

impl Scheduler {
    /// As people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Slurm => "Slurm",
            Self::Lsf => "LSF",
            Self::Pbs => "PBS",
            Self::Sge => "Grid Engine",
        }
    }

    /// What it takes to get more slots, as its user types it.
    fn more_slots(self) -> &'static str {
        match self {
            Self::Slurm => "`--ntasks-per-node=N` of sbatch or salloc",
            Self::Lsf => "`-n N` of bsub",
            Self::Pbs => "`mpiprocs=N` (Torque: `ppn=N`) of qsub",
            Self::Sge => "`-pe NAME N` of qsub",
        }
    }
}

/// What a batch system has given this job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The batch system.
    pub scheduler: Scheduler,
    /// Its number of the job; empty if it does not say.
    pub job: String,
    /// The hosts in its order.
    pub hosts: Vec<Host>,
    /// The variable that the slots come from.
    pub slots_from: &'static str,
}

impl Allocation {
    /// The allocation that the variables describe, if they describe one.
    ///
    /// # Errors
    /// A variable or file that is not what its batch system writes; variables of two batch systems.
    pub fn find(environment: &Environment, read_file: ReadFile<'_>) -> Result<Option<Self>> {
        let found = [
            slurm::find(environment)?,
            lsf::find(environment, read_file)?,
            pbs::find(environment, read_file)?,
            sge::find(environment, read_file)?,
        ];
        let mut found = found.into_iter().flatten();
        let first = found.next();
        if let (Some(first), Some(second)) = (&first, found.next()) {
            return Err(Error::TwoAllocations {
                first: first.to_string(),
                second: second.to_string(),
            });
        }
        Ok(first)
    }

    /// Where hosts and slots come from, in words.
    pub fn origin(&self) -> String {
        format!("{self}, slots by {}", self.slots_from)
    }

    /// Places `ranks` ranks on the hosts, from the first on.
    ///
    /// # Errors
    /// When there are fewer slots than ranks; names the allocation and both numbers.
    pub fn allocate(&self, ranks: u32) -> Result<Vec<Placement>> {
        allocate(&self.hosts, ranks).map_err(|error| match error {
            Error::TooFewSlots { wanted, available } => Error::TooFewAllocated {
                wanted,
                available,
                allocation: self.to_string(),
                slots_from: self.slots_from,
                more_slots: self.scheduler.more_slots(),
            },
            other => other,
        })
    }
}

/// As messages name it: `Slurm job 17`.
impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} job", self.scheduler.name())?;
        if self.job.is_empty() {
            return Ok(());
        }
        write!(f, " {}", self.job)
    }
}

/// A text of a batch system that cannot be used; for `map_err`.
fn unreadable(
    scheduler: Scheduler,
    variable: &'static str,
    text: &str,
) -> impl Fn(String) -> Error {
    let text = text.to_owned();
    move |problem| Error::Allocation {
        scheduler: scheduler.name(),
        variable,
        text: text.clone(),
        problem,
    }
}

/// The hosts in the order in which they are first named, with the sum of their slots.
fn merge(parts: impl IntoIterator<Item = (String, u32)>) -> Result<Vec<Host>, String> {
    let mut hosts: Vec<Host> = Vec::new();
    for (name, slots) in parts {
        let name = parse_name(&name).map_err(|problem| format!("host `{name}`: {problem}"))?;
        let host = Host { name, slots };
        match hosts.iter_mut().find(|known| known.is_same_host(&host)) {
            Some(known) => known.slots = known.slots.saturating_add(slots),
            None => hosts.push(host),
        }
    }
    match hosts.iter().find(|host| host.slots > SLOTS_LIMIT) {
        Some(host) => Err(format!(
            "host `{}` has more than {SLOTS_LIMIT} slots",
            host.name
        )),
        None if hosts.is_empty() => Err("it names no host".to_owned()),
        None => Ok(hosts),
    }
}

/// A number of slots as batch systems write it.
fn number(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is not a whole number from 0 to {SLOTS_LIMIT}");
    match text.parse() {
        Ok(number) if number <= SLOTS_LIMIT => Ok(number),
        _ => Err(wrong()),
    }
}

/// The file that a variable names.
fn file_of(
    scheduler: Scheduler,
    variable: &'static str,
    path: &str,
    read_file: ReadFile<'_>,
) -> Result<String> {
    let read = read_file(Path::new(path));
    read.map_err(|error| {
        unreadable(scheduler, variable, path)(format!("the file cannot be read: {error}"))
    })
}
