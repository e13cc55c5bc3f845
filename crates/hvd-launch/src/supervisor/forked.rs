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
pub(super) fn drive(
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
    heeded: &[i32],
    mask: &SignalSet,
    keeper: Pid,
    key_file: &Path,
) -> i32 {
    let result = settle(keeper).and_then(|()| perform(work, heeded, mask, key_file));
    sweep(getpid(), &HashSet::new());
    key_file::remove(key_file);
    result.unwrap_or_else(|error| complain(&error))
}

/// Makes the forked process a driver.
fn settle(keeper: Pid) -> Result<()> {
    setpgid(None, None).map_err(system("form a process group"))?;
    follow(Some(keeper))?;
    set_child_subreaper(Some(getpid())).map_err(system("adopt orphans"))?;
    // `pkill -9 horovodrun` is meant for the keeper. Losing the name would only be a pity.
    let _ = rustix::thread::set_name(ancestors::DRIVER);
    // A handler of the program we live in, an interpreter perhaps, must not run in this process.
    ENDING
        .into_iter()
        .filter(|&signal| !os::is_ignored(signal))
        .for_each(os::set_default);
    Ok(())
}

fn perform(
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
    heeded: &[i32],
    mask: &SignalSet,
    key_file: &Path,
) -> Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("start the runtime"))?;
    let result = runtime.block_on(async {
        let mut interrupts = Interrupts::listen(heeded)?;
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
pub(super) fn follow(parent: Option<Pid>) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(system("follow the parent"))?;
    if getppid() == parent {
        return Ok(());
    }
    Err(system("follow the parent")(rustix::io::Errno::SRCH))
}
