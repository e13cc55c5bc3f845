//! One worker process: started without a shell, in a process group of its own, bound to die with
//! the driver. Knows nothing of what follows; its end is seen by `job.rs`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{Command, Stdio},
};

use hvd_types::Placement;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getrlimit, kill_process_group, setrlimit,
};

use super::os;
use crate::{Error, Result};

/// A started worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) pid: Pid,
    pub(super) placement: Placement,
    /// Set once it has ended and was reaped; its number may then belong to someone else.
    pub(super) ended: bool,
}

impl Worker {
    /// Signals the worker's whole group, unless the worker is gone.
    pub(super) fn signal_group(&self, signal: Signal) {
        if self.ended {
            return;
        }
        if let Err(error) = kill_process_group(self.pid, signal) {
            tracing::debug!(rank = %self.placement.rank, %error, "cannot signal a worker's group");
        }
    }
}

/// A worker and the ends of its output.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) worker: Worker,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Lets this process have as many open files as it may, two for each rank and more; returns the
/// limit it had, which is the one workers get.
pub(super) fn raise_open_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    before
}

/// Starts the worker at `placement`, with the user's own limit of open files.
pub(super) fn start(
    command: &[String],
    placement: &Placement,
    environment: &BTreeMap<OsString, OsString>,
    open_files: Rlimit,
) -> Result<Started> {
    let (program, arguments) = command.split_first().ok_or(Error::CommandNotFound {
        command: String::new(),
        problem: "the command is empty",
    })?;
    let mut process = Command::new(program);
    process
        .args(arguments)
        .env_clear()
        .envs(environment)
        .process_group(0);
    process
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    os::before_exec(&mut process, getpid(), open_files);
    let mut child = process
        .spawn()
        .map_err(|source| refusal(program, placement, source))?;
    let pipes = child.stdout.take().zip(child.stderr.take());
    // Both were asked for as pipes two lines above, and a process number is never 0.
    let broken = || refusal(program, placement, io::ErrorKind::BrokenPipe.into());
    let (stdout, stderr) = pipes.ok_or_else(broken)?;
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(broken)?;
    let worker = Worker {
        pid,
        placement: placement.clone(),
        ended: false,
    };
    Ok(Started {
        worker,
        stdout: stdout.into(),
        stderr: stderr.into(),
    })
}

fn refusal(program: &str, placement: &Placement, source: io::Error) -> Error {
    let command = program.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => Error::CommandNotFound {
            command,
            problem: what_is_missing(program),
        },
        io::ErrorKind::PermissionDenied => Error::CommandNotExecutable { command, source },
        _ => Error::Spawn {
            rank: placement.rank,
            command,
            source,
        },
    }
}

fn what_is_missing(program: &str) -> &'static str {
    if !program.contains('/') {
        "no such command in PATH"
    } else if Path::new(program).exists() {
        "the interpreter named in its first line does not exist"
    } else {
        "no such file"
    }
}
