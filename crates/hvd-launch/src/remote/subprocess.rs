//! Runs a small program for its output, with a deadline, and leaves nothing of it behind. For
//! questions that only another program can answer; ranks are not started this way.

use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

/// The most that is read of an answer; nobody asks for more.
const LONGEST: usize = 256 * 1024;

/// How long a killed process is waited for; one that hangs in a driver may never end.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// What the program writes to stdout, if it ends well within `patience`.
pub(super) fn output(command: &mut Command, patience: Duration) -> io::Result<String> {
    let end = Instant::now() + patience;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = Kept(command.process_group(0).spawn()?);
    let text = read_to_end(&mut child.0, end)?;
    if !has_ended(&child.0, end)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let status = child.0.wait()?;
    if status.success() {
        Ok(String::from_utf8_lossy(&text).into_owned())
    } else {
        Err(io::Error::other(format!("it ended with {status}")))
    }
}

fn read_to_end(child: &mut Child, end: Instant) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let Some(pipe) = child.stdout.as_mut() else {
        return Ok(text);
    };
    let mut piece = [0; 4096];
    while text.len() < LONGEST {
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

fn has_ended(child: &Child, end: Instant) -> io::Result<bool> {
    let Some(pid) = pid_of(child) else {
        return Ok(true);
    };
    is_ready(pidfd_open(pid, PidfdFlags::empty())?.as_fd(), end)
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

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().try_into().ok()?)
}

/// A child that is ended, with all it started, when nobody needs it any more.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // Once it was reaped its number may be another's.
        if let Ok(Some(_)) = self.0.try_wait() {
            return;
        }
        if let Some(pid) = pid_of(&self.0) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        if let Ok(true) = has_ended(&self.0, Instant::now() + LAST_WAIT) {
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, patience: Duration) -> io::Result<String> {
        output(Command::new("/bin/sh").args(["-c", script]), patience)
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
        assert!(output(&mut Command::new("/no/such"), long).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let began = Instant::now();
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let hang = format!("sleep 60 & echo $! > {}; exec >&-; wait", note.display());
        for (script, patience) in [(hang.as_str(), 2000), ("sleep 60", 100)] {
            let error = run(script, Duration::from_millis(patience)).unwrap_err();
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
