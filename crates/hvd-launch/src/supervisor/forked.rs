//! The first and last steps of the forked process, whatever its work is: a job, a check of the hosts
//! or an agent.

use std::{collections::HashSet, path::Path};

use rustix::process::{
    Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal, setpgid,
};

use super::{ENDING, complain, system};
use crate::{
    error::{Error, Result},
    process::{Interrupts, SignalSet, ancestors, key_file, os, sweep},
};

/// All of the driver's life.
pub(super) fn run_child(
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
    handled: &[i32],
    mask: &SignalSet,
    supervisor: Pid,
    key_file: &Path,
) -> i32 {
    let result = become_driver(supervisor).and_then(|()| run_to_end(work, handled, mask, key_file));
    sweep(getpid(), &HashSet::new());
    key_file::remove(key_file);
    result.unwrap_or_else(|error| complain(&error))
}

/// Makes the forked process a driver.
fn become_driver(supervisor: Pid) -> Result<()> {
    setpgid(None, None).map_err(system("form a process group"))?;
    terminate_with(Some(supervisor))?;
    set_child_subreaper(Some(getpid())).map_err(system("adopt orphans"))?;
    // `pkill -9 horovodrun` is meant for the supervisor. Losing the name would only be a pity.
    let _ = rustix::thread::set_name(ancestors::DRIVER);
    // A handler of the program we live in, an interpreter perhaps, must not run in this process.
    ENDING
        .into_iter()
        .filter(|&signal| !os::is_ignored(signal))
        .for_each(os::set_default);
    Ok(())
}

fn run_to_end(
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
    handled: &[i32],
    mask: &SignalSet,
    key_file: &Path,
) -> Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("start the runtime"))?;
    let result = runtime.block_on(async {
        let mut interrupts = Interrupts::listen(handled)?;
        // What arrived since the fork is delivered now.
        mask.restore();
        // In the background of a terminal with `stty tostop`, writing would stop us. Blocked and
        // not ignored: workers start with an empty mask, but would inherit the ignoring.
        SignalSet::new(&[libc::SIGTTOU]).block();
        work(&mut interrupts, key_file).await
    });
    // Without waiting for a name server that may never answer.
    runtime.shutdown_background();
    result
}

/// Asks for SIGTERM at the death of `parent`, which may be dead already.
pub(super) fn terminate_with(parent: Option<Pid>) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(system("watch the parent process"))?;
    if getppid() == parent {
        return Ok(());
    }
    Err(system("watch the parent process")(rustix::io::Errno::SRCH))
}
