//! Runs the command line: `mpirun` as a child in a process group of its own, with this terminal as
//! its output. Signals are passed on to it alone, because it ends the ranks of all hosts; one that
//! does not end in time is killed, and the rest is swept up by the process that started it.
//!
//! * MPI-1 The exit status is that of `mpirun`; if a signal ended the job, 128 and its number.
//! * MPI-2 A signal is passed on at once, every time; SIGHUP as SIGTERM, which every `mpirun` knows.
//! * MPI-3 `mpirun` gets SIGTERM when the process that started it is gone, so that it can end the
//!   ranks on other hosts. Open MPI takes a second SIGTERM for impatience and leaves ranks behind:
//!   that is what remains of a job whose supervisor and driver are both killed within a second.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Resource, Signal, getpid, getrlimit, kill_process};
use tokio::{
    sync::oneshot,
    time::{Duration, Instant, sleep_until},
};

use super::command::CommandLine;
use crate::{
    error::{Error, Result},
    process::{Interrupts, ProcessExit, Reaper, bind_to_parent},
};

/// After the first signal `mpirun` has so long to end the job.
const TERMINATE_AFTER: Duration = Duration::from_secs(4);

/// After that, so long until it is killed.
const KILL_AFTER: Duration = Duration::from_secs(8);

/// How a job ended that another launcher ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LauncherEnd {
    /// By itself.
    Ended(ProcessExit),
    /// Because of this signal.
    Interrupted(i32),
}

impl LauncherEnd {
    /// The exit status of `horovodrun`.
    pub(super) fn status(self) -> i32 {
        match self {
            Self::Ended(exit) => exit.status(),
            Self::Interrupted(signal) => 128 + signal,
        }
    }
}

/// The launcher that runs the job.
pub(super) struct LauncherProcess {
    pid: Pid,
    end: oneshot::Receiver<ProcessExit>,
}

impl LauncherProcess {
    /// Starts it.
    pub(super) fn start(line: &CommandLine, reaper: &Reaper) -> Result<Self> {
        let refused = |program: &str, source: io::Error| Error::ForeignLauncher {
            program: program.to_owned(),
            source,
        };
        let Some((program, arguments)) = line.words.split_first() else {
            return Err(refused("", io::ErrorKind::NotFound.into()));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(&line.environment)
            .stdin(Stdio::null())
            .process_group(0);
        let open_files = getrlimit(Resource::Nofile);
        bind_to_parent(&mut command, getpid(), open_files, Signal::TERM);
        let (sender, end) = oneshot::channel();
        let on_end = move |exit| {
            // Nobody waits any more once it was given up.
            let _ = sender.send(exit);
        };
        let child = reaper
            .spawn(&mut command, on_end)
            .map_err(|source| refused(program, source))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| refused(program, io::ErrorKind::Other.into()))?;
        Ok(Self { pid, end })
    }

    /// Waits for its end and passes signals on.
    pub(super) async fn wait(mut self, interrupts: &mut Interrupts) -> LauncherEnd {
        tokio::select! {
            exit = &mut self.end => LauncherEnd::Ended(exit.unwrap_or(ProcessExit::Killed(libc::SIGKILL))),
            signal = interrupts.next() => {
                self.end_because_of(signal, interrupts).await;
                LauncherEnd::Interrupted(signal)
            }
        }
    }

    async fn end_because_of(&mut self, signal: i32, interrupts: &mut Interrupts) {
        let began = Instant::now();
        self.pass_on(signal);
        let steps = [(TERMINATE_AFTER, Signal::TERM), (KILL_AFTER, Signal::KILL)];
        for (delay, next) in steps {
            let deadline = began + delay;
            loop {
                tokio::select! {
                    _ = &mut self.end => return,
                    again = interrupts.next() => self.pass_on(again),
                    () = sleep_until(deadline) => break,
                }
            }
            self.send(next);
        }
    }

    fn pass_on(&self, signal: i32) {
        self.send(match signal {
            libc::SIGINT => Signal::INT,
            _ => Signal::TERM,
        });
    }

    fn send(&self, signal: Signal) {
        // Its end has not been seen, so the number is still its own or that of no process.
        if let Err(error) = kill_process(self.pid, signal) {
            tracing::debug!(pid = self.pid.as_raw_pid(), %error, "cannot signal the launcher");
        }
    }
}
