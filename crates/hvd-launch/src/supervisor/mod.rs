//! Keeper and driver: two processes, so that one is always left to clean up.
//!
//! ```text
//! keeper   the process the user started: passes signals on, waits, returns the exit status
//!   driver   does the work, in a process group of its own
//!     workers  one process group each; killed by the kernel when the driver dies
//! ```
//!
//! * KEEP-1 driver killed: the kernel kills the workers; what they leave is adopted by the keeper,
//!   which kills it.
//! * KEEP-2 keeper killed: the kernel sends the driver SIGTERM, and it ends the job as usual.
//! * KEEP-3 the driver's own group keeps Ctrl-C and `kill -9` of the user's group away from it: the
//!   former reaches it once, through the keeper, the latter not at all.
//! * KEEP-4 both killed at the same instant, each by its number: the kernel kills the workers, but
//!   not what they have started.
//! * KEEP-5 a signal that was ignored when the launcher was started (`nohup`) stays ignored.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use hvd_types::printable;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, setpgid, waitpid,
};

use crate::{
    agent::{self, Calling, NOBODY},
    debug, doctor, driver,
    error::{Error, Result},
    messages,
    process::{Interrupts, KeyFile, SignalSet, ancestors, has_children, key_file, os, tree},
    spec::{JobSpec, ReportForm},
};

/// What ends a job from outside.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// How long an agent waits before it calls again.
const BETWEEN_CALLS: Duration = Duration::from_secs(1);

/// How long the last sweep waits for killed processes to go.
const SWEEP: Duration = Duration::from_secs(2);

/// Runs a job to its end and returns the exit status for this process. Says on stderr what went
/// wrong.
///
/// Must be called by the only thread of the process, because it forks.
pub fn launch(spec: &JobSpec) -> i32 {
    let loyalty = if spec.function.is_used() {
        Loyalty::Follow
    } else {
        Loyalty::Stay
    };
    let status = supervise(
        loyalty,
        async |interrupts: &mut Interrupts, key_file: &Path| {
            driver::run(spec, interrupts, key_file).await
        },
    );
    // A driver that was killed could not do it.
    debug::remove_post(spec, getpid().as_raw_pid());
    status
}

/// Examines the hosts of a job that is not started, prints what it finds, and returns the exit
/// status for this process: 0 if the job could run.
///
/// Must be called by the only thread of the process, because it forks.
pub fn examine(spec: &JobSpec, form: ReportForm) -> i32 {
    supervise(
        Loyalty::Stay,
        async |interrupts: &mut Interrupts, _: &Path| doctor::run(spec, form, interrupts).await,
    )
}

/// Is the agent of a host, over standard input and output, and returns the exit status for this
/// process.
///
/// Must be called by the only thread of the process, because it forks.
pub fn serve_as_agent() -> i32 {
    supervise(Loyalty::Follow, agent::serve)
}

/// Is the agent of this host for one driver after the other, or for the first one only, and returns
/// the exit status for this process. Waits for a driver as long as there is none.
///
/// Must be called by the only thread of the process, because it forks.
pub fn serve_drivers(calling: &Calling, only_once: bool) -> i32 {
    say(&messages::calling(&calling.driver));
    loop {
        let work = async |interrupts: &mut Interrupts, key_file: &Path| {
            agent::call(calling, interrupts, key_file).await
        };
        match supervise(Loyalty::Stay, work) {
            NOBODY => {}
            status if only_once || status > 128 => return status,
            _ => {}
        }
        let ending = SignalSet::new(&ENDING);
        let mask = ending.block();
        let interrupted = ending.wait(Some(BETWEEN_CALLS));
        mask.restore();
        if let Some(signal) = interrupted {
            return 128 + signal;
        }
    }
}

/// Whether the end of the process that started this one is the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loyalty {
    /// It is.
    Follow,
    /// It is not: `nohup`, a shell that was left.
    Stay,
}

/// Runs `work` in a driver that is kept by this process. The path is where the job's key may be
/// kept; nothing is left there.
fn supervise(
    loyalty: Loyalty,
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
) -> i32 {
    keep(loyalty, work).unwrap_or_else(|error| complain(&error))
}

fn complain(error: &Error) -> i32 {
    say(&printable(&format!("{}{error}\n", messages::SPEAKER)));
    error.exit_code()
}

fn say(text: &str) {
    // Nothing is left to be done if even stderr is gone.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn keep(
    loyalty: Loyalty,
    work: impl AsyncFnOnce(&mut Interrupts, &Path) -> Result<i32>,
) -> Result<i32> {
    let heeded: Vec<i32> = ENDING
        .into_iter()
        .filter(|&signal| !os::is_ignored(signal))
        .collect();
    let watched = SignalSet::new(&[heeded.as_slice(), &[libc::SIGCHLD]].concat());
    // Where SIGCHLD is ignored, exit statuses are lost.
    os::set_default(libc::SIGCHLD);
    // A file that `ulimit -f` does not let grow is an error like a full disk, not the end. Blocked
    // for good: one that is pending would end us later. Workers start with an empty mask.
    SignalSet::new(&[libc::SIGXFSZ]).block();
    let key_file = KeyFile::reserve()?;
    let mask = watched.block();
    let drive = |keeper| drive(work, &heeded, &mask, keeper, &key_file);
    let result = fork_driver(loyalty, drive).map(|keeper| keeper.watch(&watched));
    mask.restore();
    // The driver has removed it already, unless it was killed.
    key_file::remove(&key_file);
    result
}

fn fork_driver(loyalty: Loyalty, drive: impl FnOnce(Pid) -> i32) -> Result<Keeper> {
    let me = getpid();
    set_child_subreaper(Some(me)).map_err(system("adopt orphans"))?;
    if loyalty == Loyalty::Follow {
        follow(getppid())?;
    }
    let strangers = if has_children() {
        tree::children(me)
    } else {
        HashSet::new()
    };
    let driver = os::fork(|| drive(me)).map_err(Error::system("fork"))?;
    Ok(Keeper {
        me,
        driver,
        strangers,
    })
}

fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |error| Error::System {
        what,
        source: error.into(),
    }
}

/// Asks for SIGTERM at the death of `parent`, which may be dead already.
fn follow(parent: Option<Pid>) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(system("follow the parent"))?;
    if getppid() == parent {
        return Ok(());
    }
    Err(system("follow the parent")(rustix::io::Errno::SRCH))
}

/// The process the user started.
struct Keeper {
    me: Pid,
    driver: Pid,
    /// Children this process had before; they are none of the job's business.
    strangers: HashSet<i32>,
}

impl Keeper {
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
        sweep(self.me, &self.strangers);
        if let Some(code) = status.exit_status() {
            return code;
        }
        let signal = status.terminating_signal().unwrap_or(libc::SIGKILL);
        say(&messages::driver_killed(signal));
        128 + signal
    }
}

/// Kills and reaps everything below `root` that is no stranger. Repeats whenever a child has ended:
/// its children may have become visible by that.
fn sweep(root: Pid, strangers: &HashSet<i32>) {
    let child_ended = SignalSet::new(&[libc::SIGCHLD]);
    let mask = child_ended.block();
    let deadline = Instant::now() + SWEEP;
    while has_children() {
        for child in tree::children(root).difference(strangers) {
            let _ = waitpid(Pid::from_raw(*child), WaitOptions::NOHANG);
        }
        let left = tree::descendants(root, strangers);
        let now = Instant::now();
        if left.is_empty() || now > deadline {
            break;
        }
        tree::signal_all(left, Signal::KILL);
        child_ended.wait(Some(deadline - now));
    }
    mask.restore();
}

/// All of the driver's life.
fn drive(
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
