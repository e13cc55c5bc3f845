//! Supervisor and driver: two processes, so that one is always left to clean up.
//!
//! ```text
//! supervisor  the process the user started: passes signals on, waits, returns the exit status
//!   driver    does the work, in a process group of its own
//!     workers one process group each; killed by the kernel when the driver dies
//! ```
//!
//! * SUPER-1 driver killed: the kernel kills the workers; what they leave is adopted by the supervisor,
//!   which kills it.
//! * SUPER-2 supervisor killed: the kernel sends the driver SIGTERM, and it ends the job as usual.
//! * SUPER-3 the driver's own group keeps Ctrl-C and `kill -9` of the user's group away from it: the
//!   former reaches it once, through the supervisor, the latter not at all.
//! * SUPER-4 both killed at the same instant, each by its number: the kernel kills the workers, but
//!   not what they have started.
//! * SUPER-5 a signal that was ignored when the launcher was started (`nohup`) stays ignored.

mod forked;
mod watch;

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use hvd_types::printable;
use rustix::process::getpid;

use self::watch::{ParentDeath, supervise};
use crate::{
    agent::{self, Calling, NO_DRIVER},
    debug, doctor, driver,
    error::Error,
    messages,
    mpirun::{self, MpiOptions},
    process::{Interrupts, SignalSet},
    spec::{JobSpec, ReportFormat},
};

/// What ends a job from outside.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// How long an agent waits before it calls again.
const BETWEEN_CALLS: Duration = Duration::from_secs(1);

/// Runs a job to its end and returns the exit status for this process. Says on stderr what went
/// wrong.
///
/// Must be called by the only thread of the process, because it forks.
pub fn launch(spec: &JobSpec) -> i32 {
    let status = supervise(
        ParentDeath::of(spec),
        async |interrupts: &mut Interrupts, key_file: &Path| {
            driver::run(spec, interrupts, key_file).await
        },
    );
    // A driver that was killed could not do it.
    debug::remove_endpoint(spec, getpid().as_raw_pid());
    status
}

/// Runs a job by `mpirun` or `jsrun` to its end and returns the exit status for this process.
///
/// Must be called by the only thread of the process, because it forks.
pub fn launch_mpi(spec: &JobSpec, options: &MpiOptions) -> i32 {
    supervise(
        ParentDeath::of(spec),
        async |interrupts: &mut Interrupts, scratch: &Path| {
            mpirun::run(spec, options, interrupts, scratch).await
        },
    )
}

/// Checks the hosts of a job that is not started, prints what it finds, and returns the exit
/// status for this process: 0 if the job could run.
///
/// Must be called by the only thread of the process, because it forks.
pub fn check_hosts(spec: &JobSpec, form: ReportFormat) -> i32 {
    supervise(
        ParentDeath::Ignored,
        async |interrupts: &mut Interrupts, _: &Path| doctor::run(spec, form, interrupts).await,
    )
}

/// Is the agent of a host, over standard input and output, and returns the exit status for this
/// process.
///
/// Must be called by the only thread of the process, because it forks.
pub fn serve_as_agent() -> i32 {
    supervise(ParentDeath::EndsJob, agent::serve)
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
        match supervise(ParentDeath::Ignored, work) {
            NO_DRIVER => {}
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

fn complain(error: &Error) -> i32 {
    say(&printable(&format!("{}{error}\n", messages::SPEAKER)));
    error.exit_code()
}

fn say(text: &str) {
    // Nothing is left to be done if even stderr is gone.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |error| Error::System {
        what,
        source: error.into(),
    }
}
