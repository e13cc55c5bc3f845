//! The parent: forks the process that does the work, passes signals on to it, waits for its end and
//! ends what it has left behind.

use std::{collections::HashSet, path::Path};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_child_subreaper,
    waitpid,
};

use super::{
    ENDING, complain,
    forked::{run_child, terminate_with},
    say, system,
};
use crate::{
    error::{Error, Result},
    messages,
    process::{Interrupts, KeyFile, SignalSet, has_children, key_file, os, sweep, tree},
    spec::JobSpec,
};

/// Whether the end of the process that started this one is the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParentDeath {
    /// It is.
    EndsJob,
    /// It is not: `nohup`, a shell that was left.
    Ignored,
}

impl ParentDeath {
    /// For a job: a function's results have no use without the program that asked for them.
    pub(super) fn of(spec: &JobSpec) -> Self {
        if spec.function.is_used() {
            Self::EndsJob
        } else {
            Self::Ignored
        }
    }
}

/// Runs `work` in a driver that is kept by this process. The path is where the job's key may be
/// kept; nothing is left there.
pub(super) fn supervise(
    parent_death: ParentDeath,
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
) -> i32 {
    fork_and_watch(parent_death, work).unwrap_or_else(|error| complain(&error))
}

fn fork_and_watch(
    parent_death: ParentDeath,
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
) -> Result<i32> {
    let handled: Vec<i32> = ENDING
        .into_iter()
        .filter(|&signal| !os::is_ignored(signal))
        .collect();
    let watched = SignalSet::new(&[handled.as_slice(), &[libc::SIGCHLD]].concat());
    // Where SIGCHLD is ignored, exit statuses are lost.
    os::set_default(libc::SIGCHLD);
    // A file that `ulimit -f` does not let grow is an error like a full disk, not the end. Blocked
    // for good: one that is pending would end us later. Workers start with an empty mask.
    SignalSet::new(&[libc::SIGXFSZ]).block();
    let key_file = KeyFile::reserve()?;
    let mask = watched.block();
    let run_child = |supervisor| run_child(work, &handled, &mask, supervisor, &key_file);
    let result = fork_driver(parent_death, run_child).map(|supervisor| supervisor.watch(&watched));
    mask.restore();
    // The driver has removed it already, unless it was killed.
    key_file::remove(&key_file);
    result
}

fn fork_driver(
    parent_death: ParentDeath,
    run_child: impl FnOnce(Pid) -> i32,
) -> Result<Supervisor> {
    let me = getpid();
    set_child_subreaper(Some(me)).map_err(system("adopt orphans"))?;
    if parent_death == ParentDeath::EndsJob {
        terminate_with(getppid())?;
    }
    let unrelated = if has_children() {
        tree::children(me)
    } else {
        HashSet::new()
    };
    let driver = os::fork(|| run_child(me)).map_err(Error::system("fork"))?;
    Ok(Supervisor {
        me,
        driver,
        unrelated,
    })
}

/// The process the user started.
struct Supervisor {
    me: Pid,
    driver: Pid,
    /// Children this process had before; they are none of the job's business.
    unrelated: HashSet<i32>,
}

impl Supervisor {
    fn watch(&self, watched: &SignalSet) -> i32 {
        loop {
            match watched.wait(None) {
                Some(libc::SIGCHLD) => {
                    if let Ok(Some((_, status))) = waitpid(Some(self.driver), WaitOptions::NOHANG) {
                        return self.clean_up(status);
                    }
                }
                Some(signal) => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        // The driver is not reaped yet, so the number is still its own.
                        let _ = kill_process(self.driver, signal);
                    }
                }
                None => {}
            }
        }
    }

    fn clean_up(&self, status: WaitStatus) -> i32 {
        sweep(self.me, &self.unrelated);
        if let Some(code) = status.exit_status() {
            return code;
        }
        let signal = status.terminating_signal().unwrap_or(libc::SIGKILL);
        say(&messages::driver_killed(signal));
        128 + signal
    }
}
