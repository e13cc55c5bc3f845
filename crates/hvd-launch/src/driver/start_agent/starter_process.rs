//! The `ssh` or `srun` through which an agent is started, as a process of this machine: its streams, what it
//! prints, and its end. Knows nothing of what the agent says.

use std::{
    io,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Pid, Resource, Signal, getpid, getrlimit, kill_process};
use tokio::{io::AsyncReadExt, net::unix::pipe, sync::oneshot, time::Instant};

use super::AgentStart;
use crate::{
    error::HostTrouble,
    hosts::Starter,
    process::{ProcessExit, Reaper, before_exec},
};

/// The most that is kept of what a login shell or a starter prints.
pub(super) const OUTPUT_LIMIT: usize = 16 << 10;

/// The process that holds an agent.
pub(crate) struct StarterProcess {
    pub(crate) kind: Starter,
    pub(crate) pid: Pid,
    /// How it ends.
    pub(crate) end: oneshot::Receiver<ProcessExit>,
    has_ended: Arc<AtomicBool>,
    pub(super) began: Instant,
    stderr: StarterStderr,
    /// Held open: its end means to the agent that the driver is gone.
    pub(super) liveness: Option<pipe::Sender>,
}

/// What a starter and the login on the other side have said on stderr so far.
#[derive(Clone, Default)]
pub(crate) struct StarterStderr(Arc<Mutex<Vec<u8>>>);

impl StarterStderr {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(OUTPUT_LIMIT);
        kept.drain(..excess);
    }

    fn clear(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl StarterProcess {
    /// What it has said.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Lets go of the agent, which ends then.
    pub(crate) fn close_stdin(&mut self) {
        self.liveness = None;
    }

    /// Ends it, whatever it does.
    pub(crate) fn kill(&self) {
        if !self.has_ended.load(Ordering::Relaxed) {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

impl Drop for StarterProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl AgentStart {
    /// Starts it for the agent of `interpreter`; returns it with its input and output.
    pub(super) fn start_process(
        &self,
        interpreter: &str,
        reaper: &Reaper,
    ) -> Result<(StarterProcess, pipe::Sender, pipe::Receiver), HostTrouble> {
        let mut options = self.options.clone();
        options.ssh = options.ssh.for_addresses(self.addresses.len());
        let command_line = options.agent_command(&self.target, interpreter);
        let (program, arguments) = command_line
            .split_first()
            .ok_or_else(|| self.cannot_start(&io::ErrorKind::NotFound.into()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if options.starter.passes_environment() {
            command.env_clear().envs(self.environment.iter().cloned());
        } else {
            // So that its refusals are in the words known here.
            command.env("LC_ALL", "C");
        }
        before_exec(&mut command, getpid(), getrlimit(Resource::Nofile));
        let began = Instant::now();
        let mut child = command.spawn().map_err(|error| self.cannot_start(&error))?;
        let (sender, end) = oneshot::channel();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| self.cannot_start(&io::ErrorKind::Other.into()))?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&has_ended);
        reaper.watch(pid, move |outcome| {
            flag.store(true, Ordering::Relaxed);
            let _ = sender.send(outcome);
        });
        let streams = || -> io::Result<_> {
            let taken = || io::Error::from(io::ErrorKind::BrokenPipe);
            let stdin = OwnedFd::from(child.stdin.take().ok_or_else(taken)?);
            let stdout = OwnedFd::from(child.stdout.take().ok_or_else(taken)?);
            let stderr = OwnedFd::from(child.stderr.take().ok_or_else(taken)?);
            Ok((
                pipe::Sender::from_owned_fd(stdin)?,
                pipe::Receiver::from_owned_fd(stdout)?,
                pipe::Receiver::from_owned_fd(stderr)?,
            ))
        };
        let (stdin, stdout, stderr_pipe) =
            { streams }().map_err(|error| self.cannot_start(&error))?;
        let stderr = self.stderr.clone();
        stderr.clear();
        tokio::spawn(keep_stderr(stderr_pipe, stderr.clone()));
        let process = StarterProcess {
            kind: options.starter,
            pid,
            end,
            has_ended,
            began,
            stderr,
            liveness: None,
        };
        Ok((process, stdin, stdout))
    }

    fn cannot_start(&self, error: &io::Error) -> HostTrouble {
        self.trouble(
            format!(
                "cannot start `{}` to reach host `{}`: {error}",
                self.options.starter.program(),
                self.target
            ),
            self.options.starter.remedy_if_missing().to_owned(),
        )
    }
}

/// Keeps what it says, so that it does not wait for us and can be quoted.
async fn keep_stderr(mut pipe: pipe::Receiver, stderr: StarterStderr) {
    let mut buffer = [0; 4096];
    while let Ok(length) = pipe.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        tracing::debug!(said = %String::from_utf8_lossy(&buffer[..length]), "starter");
        stderr.add(&buffer[..length]);
    }
}
