//! Runs a small program for its output, with a deadline, and leaves nothing of it behind. For
//! questions that only another program can answer; ranks are not started this way.

use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::{ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process_group},
};

use super::{exit::ProcessExit, reaper::Reaper};

/// The most that is read of an answer; no caller needs more.
const OUTPUT_LIMIT: usize = 256 * 1024;

/// How long a killed process is waited for; one that hangs in a driver may never end.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Who waits for the children of this process.
#[derive(Clone)]
pub(crate) enum ReapedBy {
    /// A reaper, with which every child must be registered.
    Reaper(Reaper),
    /// The code that started the child.
    #[cfg(test)]
    Starter,
}

/// What the program writes to stdout, if it ends well within `timeout`.
pub(crate) fn output(
    command: &mut Command,
    timeout: Duration,
    reaped_by: &ReapedBy,
) -> io::Result<String> {
    let end = Instant::now() + timeout;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let (mut child, stdout) = ChildGuard::start(command.process_group(0), reaped_by)?;
    let text = read_to_end(stdout, end)?;
    match child.ended_by(end) {
        None => Err(io::ErrorKind::TimedOut.into()),
        Some(ProcessExit::Exited(0)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Some(other) => Err(io::Error::other(format!("it ended with {other:?}"))),
    }
}

fn read_to_end(stdout: Option<ChildStdout>, end: Instant) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let Some(mut pipe) = stdout else {
        return Ok(text);
    };
    let mut piece = [0; 4096];
    while text.len() < OUTPUT_LIMIT {
        if !is_ready(pipe.as_fd(), end)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match pipe.read(&mut piece)? {
            0 => return Ok(text),
            count => text.extend(&piece[..count]),
        }
    }
    Err(io::Error::other("it wrote too much"))
}

fn is_ready(descriptor: BorrowedFd<'_>, end: Instant) -> io::Result<bool> {
    let left = end.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(
        &mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)],
        Some(&timeout),
    ) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => is_ready(descriptor, end),
        Err(error) => Err(error.into()),
    }
}

/// A child that is ended, with all it started, when this value is dropped.
struct ChildGuard {
    pid: Option<Pid>,
    end: Receiver<ProcessExit>,
    has_ended: bool,
}

impl ChildGuard {
    fn start(
        command: &mut Command,
        reaped_by: &ReapedBy,
    ) -> io::Result<(Self, Option<ChildStdout>)> {
        let (sender, end) = mpsc::channel();
        let on_end = move |outcome| {
            let _ = sender.send(outcome);
        };
        let mut child = match reaped_by {
            ReapedBy::Reaper(reaper) => reaper.spawn(command, on_end.clone())?,
            #[cfg(test)]
            ReapedBy::Starter => command.spawn()?,
        };
        let kept = Self {
            pid: child.id().try_into().ok().and_then(Pid::from_raw),
            end,
            has_ended: false,
        };
        let stdout = child.stdout.take();
        #[cfg(test)]
        if let ReapedBy::Starter = reaped_by {
            tests::wait_for(child, on_end);
        }
        Ok((kept, stdout))
    }

    fn ended_by(&mut self, end: Instant) -> Option<ProcessExit> {
        let left = end.saturating_duration_since(Instant::now());
        let outcome = self.end.recv_timeout(left).ok();
        self.has_ended |= outcome.is_some();
        outcome
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Once it was reaped its number may be another's.
        if self.has_ended || self.end.try_recv().is_ok() {
            return;
        }
        if let Some(pid) = self.pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.end.recv_timeout(KILL_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Child, thread};

    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;

    fn run(script: &str, timeout: Duration) -> io::Result<String> {
        let mut command = Command::new("/bin/sh");
        output(command.args(["-c", script]), timeout, &ReapedBy::Starter)
    }

    /// Does what a reaper would: the tests of a program share one process, and a reaper would take
    /// the children of other tests as well.
    pub(crate) fn wait_for(mut child: Child, on_end: impl FnOnce(ProcessExit) + Send + 'static) {
        let wait = move || {
            let status = child.wait().unwrap();
            on_end(match status.code() {
                Some(code) => ProcessExit::Exited(code),
                None => ProcessExit::Killed(status.signal().unwrap()),
            });
        };
        thread::Builder::new().spawn(wait).unwrap();
    }

    #[test]
    fn the_answer_is_stdout_of_a_program_that_ends_well() {
        let long = Duration::from_secs(30);
        assert_eq!(run("echo yes; echo no >&2", long).unwrap(), "yes\n");
        assert!(run("echo yes; exit 3", long).is_err());
        assert!(
            run("yes", long)
                .unwrap_err()
                .to_string()
                .contains("too much")
        );
        let mut missing = Command::new("/no/such");
        assert!(output(&mut missing, long, &ReapedBy::Starter).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let began = Instant::now();
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let hang = format!("sleep 60 & echo $! > {}; exec >&-; wait", note.display());
        for (script, timeout) in [(hang.as_str(), 2000), ("sleep 60", 100)] {
            let error = run(script, Duration::from_millis(timeout)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        assert!(began.elapsed() < Duration::from_secs(20));
        let pid: i32 = std::fs::read_to_string(note)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // Gone already, or about to go.
        if let Ok(orphan) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
            let end = Instant::now() + Duration::from_secs(10);
            assert!(is_ready(orphan.as_fd(), end).unwrap());
        }
    }
}
