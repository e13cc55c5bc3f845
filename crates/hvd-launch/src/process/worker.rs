//! One worker process: started without a shell, in a process group of its own, bound to die with
//! this process. Knows nothing of what follows; its end is seen by `reaper.rs`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{Command, Stdio},
};

use hvd_rendezvous::limits;
use hvd_types::Rank;
use rustix::process::{Pid, Rlimit, Signal, getpid, kill_process_group};

use super::os;
use crate::error::{Error, Result};

/// What one rank needs to be started.
#[derive(Debug, Clone)]
pub(crate) struct RankTask {
    pub(crate) rank: Rank,
    /// All of its environment.
    pub(crate) environment: BTreeMap<OsString, OsString>,
}

/// A worker's process and the ends of its output.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: Pid,
    /// Its standard input, if that is to be held open.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Pipe,
    pub(super) stderr: Pipe,
}

/// The reading end of an output stream.
pub(crate) type Pipe = OwnedFd;

/// Signals a worker's whole group; one that has just gone is no error.
pub(super) fn signal_group(pid: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(pid, signal) {
        tracing::debug!(pid = pid.as_raw_pid(), %error, "cannot signal a worker's group");
    }
}

/// Open files of this process for each rank: its output, and its way to the store.
const FILES_PER_RANK: u64 = 3;

/// Open files for everything else.
const FILES: u64 = 16;

/// Lets this process have as many open files as it may; returns the limit that workers get, which
/// is the one that this process was started with.
pub(super) fn prepare_open_files(ranks: usize) -> Result<Rlimit> {
    let original = limits::raise_open_files();
    let more = FILES + FILES_PER_RANK * ranks as u64;
    limits::check_open_files(more)
        .map(|()| original)
        .map_err(|shortage| Error::OpenFiles { ranks, shortage })
}

/// What a worker has on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerStdin {
    /// Nothing.
    Empty,
    /// A pipe that ends with this process.
    HeldOpen,
}

/// Starts the worker of a rank, with the user's own limit of open files.
pub(super) fn start(
    command: &[String],
    directory: Option<&Path>,
    task: &RankTask,
    stdin: WorkerStdin,
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
        .envs(&task.environment)
        .process_group(0);
    if let Some(directory) = directory {
        process.current_dir(directory);
    }
    process
        .stdin(match stdin {
            WorkerStdin::Empty => Stdio::null(),
            WorkerStdin::HeldOpen => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    os::before_exec(&mut process, getpid(), open_files);
    let mut child = process
        .spawn()
        .map_err(|source| refusal(program, task.rank, source))?;
    let pipes = child.stdout.take().zip(child.stderr.take());
    // Both were asked for as pipes two lines above, and a process number is never 0.
    let broken = || refusal(program, task.rank, io::ErrorKind::BrokenPipe.into());
    let (stdout, stderr) = pipes.ok_or_else(broken)?;
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(broken)?;
    Ok(Started {
        pid,
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: stdout.into(),
        stderr: stderr.into(),
    })
}

fn refusal(program: &str, rank: Rank, source: io::Error) -> Error {
    let command = program.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => Error::CommandNotFound {
            command,
            problem: what_is_missing(program),
        },
        io::ErrorKind::PermissionDenied => Error::CommandNotExecutable { command, source },
        _ => Error::Spawn {
            rank,
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
