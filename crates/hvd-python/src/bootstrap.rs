//! The job that another launcher has started this process for: found at the first `init`, kept for
//! the life of the process, because rank 0 serves the store and launchers take part in it once only.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hvd_bootstrap::{Announced, FoundJob};
use hvd_config::{BootstrapConfig, Environment};
use hvd_types::Rank;
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

use crate::error::{Error, Result};
use crate::logging;

/// Which job `init` joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobSource {
    /// That of the launcher.
    Launcher,
    /// That of some of the launcher's ranks, in this order.
    Subset(Vec<u32>),
    /// One whose ranks have passed rank 0's announcement on among themselves.
    Announced { rank: u32, size: u32, text: String },
}

impl JobSource {
    pub(crate) fn new(announced: Option<(u32, u32, String)>, ranks: Option<Vec<u32>>) -> Self {
        match (announced, ranks) {
            (Some((rank, size, text)), _) => Self::Announced { rank, size, text },
            (None, Some(ranks)) => Self::Subset(ranks),
            (None, None) => Self::Launcher,
        }
    }
}

/// The jobs that this process has found.
static FOUND: Mutex<Vec<(JobSource, FoundJob)>> = Mutex::new(Vec::new());

/// The store that this process has announced and not joined yet.
static ANNOUNCED: Mutex<Option<Announced>> = Mutex::new(None);

fn found() -> MutexGuard<'static, Vec<(JobSource, FoundJob)>> {
    FOUND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The environment of this process with what a launcher of ours would have set.
pub(crate) fn environment(source: &JobSource, helper: &[String]) -> Result<Environment> {
    let environment = Environment::of_process();
    logging::install(&environment)?;
    let mut jobs = found();
    if let Some((_, job)) = jobs.iter().find(|(known, _)| known == source) {
        return Ok(overlaid(environment, job));
    }
    let job = match source {
        JobSource::Launcher => hvd_bootstrap::find(&environment, helper)?,
        JobSource::Subset(ranks) => Some(hvd_bootstrap::find_subset(&environment, ranks)?),
        JobSource::Announced { rank, size, text } => {
            let own = ANNOUNCED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let rank = Rank::new(*rank);
            Some(hvd_bootstrap::join(&environment, rank, *size, own, text)?)
        }
    };
    let Some(job) = job else {
        return Ok(environment);
    };
    let environment = overlaid(environment, &job);
    jobs.push((source.clone(), job));
    Ok(environment)
}

fn overlaid(environment: Environment, job: &FoundJob) -> Environment {
    let variables = job.variables().iter();
    environment.with(variables.map(|(name, value)| (*name, value.as_str())))
}

/// Loads this module, and nothing else, from the path that is given.
const HELPER: &str = "import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
loader = ExtensionFileLoader('_core', sys.argv[1])
module = module_from_spec(spec_from_loader('_core', loader))
loader.exec_module(module)
module.pmix_helper()";

/// The command that calls [`pmix_helper`] in a new process; empty if this interpreter cannot be
/// started anew.
pub(crate) fn helper(py: Python<'_>) -> Vec<String> {
    let command = || -> PyResult<Vec<String>> {
        let executable: String = py.import("sys")?.getattr("executable")?.extract()?;
        let module: String = py.import("horovod._core")?.getattr("__file__")?.extract()?;
        let options = ["-I", "-S", "-c", HELPER].map(str::to_owned);
        let mut command = vec![executable];
        command.extend(options);
        command.push(module);
        Ok(command)
    };
    let command = command().unwrap_or_default();
    if command.first().is_some_and(|program| !program.is_empty()) {
        command
    } else {
        Vec::new()
    }
}

/// What the process of that command does.
#[pyfunction]
pub(crate) fn pmix_helper(py: Python<'_>) -> PyResult<()> {
    let run = || hvd_bootstrap::run_helper(&Environment::of_process());
    py.detach(run).map_err(PySystemExit::new_err)
}

/// Starts the store of a job whose ranks pass the returned text on themselves, and then all `init`
/// with it.
#[pyfunction]
pub(crate) fn announce(py: Python<'_>) -> PyResult<String> {
    let start = || hvd_bootstrap::announce(&Environment::of_process());
    let (announced, text) = py.detach(start).map_err(Error::from)?;
    *ANNOUNCED.lock().unwrap_or_else(PoisonError::into_inner) = Some(announced);
    Ok(text)
}

/// How many seconds `init` waits for other ranks.
#[pyfunction]
pub(crate) fn init_timeout() -> PyResult<f64> {
    let config = BootstrapConfig::read(&Environment::of_process());
    Ok(config.map_err(Error::from)?.timeout.as_secs_f64())
}

/// Takes leave of the launcher that has started this process; it is about to exit.
#[pyfunction]
pub(crate) fn leave_launcher(py: Python<'_>) {
    py.detach(|| {
        // A thread that still looks for its job holds the lock, and the process exits without it.
        if let Ok(mut jobs) = FOUND.try_lock() {
            for (_, job) in jobs.iter_mut() {
                job.finish();
            }
        }
    });
}

/// Forgets all of it in a forked child: the launcher and the other ranks know the parent only.
pub(crate) fn after_fork_in_child() {
    // If a thread of the parent held the lock at the fork, there is nothing that can be done here.
    if let Ok(mut jobs) = FOUND.try_lock() {
        #[expect(
            clippy::mem_forget,
            reason = "a drop would wait for threads that are not there"
        )]
        std::mem::forget(std::mem::take(&mut *jobs));
    }
}
