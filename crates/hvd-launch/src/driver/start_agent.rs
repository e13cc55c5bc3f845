//! Gets the agent of one host: starts `ssh`, hands over the assignment, reads the greeting, and
//! opens the link. Everything that can go wrong is reported in the words of `ssh/explain.rs`.
//!
//! The agent is that of the Python whose path is that of this host's, else that of the `horovodrun`
//! on the other host's PATH. The shell there chooses between them by whether the Python exists;
//! where it exists without horovod, a second `ssh` asks for the other one, so that no job waits for
//! a question that almost always has the same answer.

use std::{
    io,
    net::IpAddr,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Pid, Resource, Signal, getpid, getrlimit, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe,
    sync::oneshot,
    time::{Duration, Instant, timeout},
};

use super::agent_port::{AgentIdentity, AgentPort};
use crate::{
    error::HostTrouble,
    hosts::ssh::{self, SshFailure, own_files},
    link::{AgentLink, SealedStream, split},
    process::{ProcessExit, ReapedBy, Reaper, before_exec},
    protocol::{AgentNotice, Assignment, GREETING, LINK_OVER_STDIO, LINK_OVER_TCP, Opening},
    spec::RemoteOptions,
};

/// The most that is kept of what a login shell or `ssh` prints.
const OUTPUT_LIMIT: usize = 16 << 10;

/// How long an `ssh` that has closed its output may take to end.
const SSH_END_TIMEOUT: Duration = Duration::from_secs(2);

/// A host's agent, connected.
pub(crate) struct StartedAgent {
    pub(crate) link: LinkToAgent,
    /// None for an agent that was started beforehand.
    pub(crate) ssh: Option<Ssh>,
    /// When the agent got its assignment.
    pub(crate) assigned: Instant,
    /// From the call to the first word of the agent.
    pub(crate) latency: Duration,
}

/// A link to an agent.
pub(crate) type LinkToAgent = AgentLink<AgentNotice, Opening>;

/// The `ssh` that holds an agent.
pub(crate) struct Ssh {
    pub(crate) pid: Pid,
    /// How it ends.
    pub(crate) end: oneshot::Receiver<ProcessExit>,
    has_ended: Arc<AtomicBool>,
    began: Instant,
    stderr: SshStderr,
    /// Held open: its end means to the agent that the driver is gone.
    liveness: Option<pipe::Sender>,
}

/// What `ssh` and the login on the other side have said on stderr so far.
#[derive(Clone, Default)]
pub(crate) struct SshStderr(Arc<Mutex<Vec<u8>>>);

impl SshStderr {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(OUTPUT_LIMIT);
        kept.drain(..excess);
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl Ssh {
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

impl Drop for Ssh {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How to reach one host, and what its agent is to do.
pub(crate) struct AgentStart {
    pub(crate) assignment: Assignment,
    /// The host for `ssh`, with a user if one was given.
    pub(crate) target: String,
    /// What its name leads to.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) options: RemoteOptions,
}

/// Why a host has no agent for this job.
struct Refusal {
    /// None if it was not ssh that failed.
    cause: Option<SshFailure>,
    trouble: HostTrouble,
}

impl From<HostTrouble> for Refusal {
    fn from(trouble: HostTrouble) -> Self {
        let cause = None;
        Self { cause, trouble }
    }
}

/// Tells of both places where horovod was looked for: the Python of this host's path has none, and
/// the PATH has none either, or one that is of no use.
fn both(first: HostTrouble, second: Refusal) -> HostTrouble {
    if second.cause == Some(SshFailure::AgentMissing) {
        return HostTrouble {
            what: format!("{}, and no `horovodrun` is on its PATH", first.what),
            ..first
        };
    }
    HostTrouble {
        what: format!(
            "{}; with the `horovodrun` on its PATH: {}",
            first.what, second.trouble.what
        ),
        ..second.trouble
    }
}

impl AgentStart {
    /// Starts the agent and connects with it.
    pub(crate) async fn start(
        &self,
        reaper: &Reaper,
        port: &AgentPort,
    ) -> Result<StartedAgent, HostTrouble> {
        if port.accepts_calls() {
            return self.await_call(port).await;
        }
        let interpreter = &self.options.interpreter;
        let first = match self.call(interpreter, reaper, port).await {
            Err(refusal) if refusal.cause == Some(SshFailure::NoHorovod) => refusal,
            called => return called.map_err(|refusal| refusal.trouble),
        };
        let second = self.call("", reaper, port).await;
        second.map_err(|second| both(first.trouble, second))
    }

    /// Starts the agent through ssh, that of the interpreter if it is there, and connects with it.
    async fn call(
        &self,
        interpreter: &str,
        reaper: &Reaper,
        port: &AgentPort,
    ) -> Result<StartedAgent, Refusal> {
        let connection = port.expect(self.assignment.host, AgentIdentity::default());
        let (mut ssh, mut input, output) = self.start_ssh(interpreter, reaper)?;
        let mut output = BufReader::new(output);
        let mut greeted_at = Instant::now();
        let kind = self
            .exchange_greetings(&mut input, &mut output, &mut greeted_at)
            .await;
        let latency = greeted_at.saturating_duration_since(ssh.began);
        let assigned = Instant::now();
        let link = match kind {
            Ok(LinkKind::OverStdio) => AgentLink::start(output, input),
            Ok(LinkKind::OverTcp) => {
                ssh.liveness = Some(input);
                self.link_of(connection).await?
            }
            Err(GreetingError::OtherVersion(version)) => {
                let reaped_by = ReapedBy::Reaper(reaper.clone());
                let wheel = own_files::wheel(&self.options.interpreter, reaped_by).await;
                return Err(self.other_version(&version, wheel.as_deref()).into());
            }
            Err(GreetingError::Ended { noise }) => {
                drop(input);
                let end = timeout(SSH_END_TIMEOUT, &mut ssh.end).await;
                let code = end.ok().and_then(Result::ok).map(ProcessExit::status);
                return Err(self.refusal(code, &ssh.stderr(), &noise, reaper).await);
            }
        };
        Ok(StartedAgent {
            link,
            ssh: Some(ssh),
            assigned,
            latency,
        })
    }

    /// Waits for an agent that connects by itself, and sends its assignment.
    async fn await_call(&self, port: &AgentPort) -> Result<StartedAgent, HostTrouble> {
        let began = Instant::now();
        let identity = AgentIdentity {
            name: self.assignment.name.clone(),
            addresses: self.addresses.clone(),
        };
        let gone = || {
            let what = format!("the agent of host `{}` has gone again", self.target);
            self.trouble(what, "look at what it printed there".to_owned())
        };
        let stream = port.expect(self.assignment.host, identity).await;
        let stream = stream.map_err(|_| gone())?;
        let (reader, mut writer) = split(stream).map_err(|_| gone())?;
        self.assign(&mut writer).await.map_err(|_| gone())?;
        Ok(StartedAgent {
            link: AgentLink::start(reader, writer),
            ssh: None,
            assigned: Instant::now(),
            latency: began.elapsed(),
        })
    }

    /// Hands over the assignment, its length first.
    async fn assign(&self, writer: &mut (impl AsyncWriteExt + Unpin)) -> io::Result<()> {
        let assignment = serde_json::to_vec(&self.assignment).unwrap_or_default();
        let length = u32::try_from(assignment.len()).unwrap_or(u32::MAX);
        writer.write_all(&length.to_le_bytes()).await?;
        writer.write_all(&assignment).await
    }

    /// What an ssh that ended without an agent means.
    async fn refusal(
        &self,
        code: Option<i32>,
        stderr: &str,
        noise: &str,
        reaper: &Reaper,
    ) -> Refusal {
        let target = &self.target;
        let cause = ssh::recognise(code, stderr, noise);
        let own = own_files::find(
            cause,
            &self.options.ssh,
            target,
            &self.options.interpreter,
            reaper,
        )
        .await;
        let explained = ssh::explain(target, &self.options.ssh, code, stderr, noise, &own);
        Refusal {
            cause: Some(explained.cause),
            trouble: self.trouble(explained.what, explained.remedy),
        }
    }

    fn start_ssh(
        &self,
        interpreter: &str,
        reaper: &Reaper,
    ) -> Result<(Ssh, pipe::Sender, pipe::Receiver), HostTrouble> {
        let mut options = self.options.clone();
        options.ssh = options.ssh.for_addresses(self.addresses.len());
        let command_line = options.agent_command(&self.target, interpreter);
        let (program, arguments) = command_line
            .split_first()
            .ok_or_else(|| self.cannot_start(&io::ErrorKind::NotFound.into()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
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
        let stderr = SshStderr::default();
        tokio::spawn(keep_stderr(stderr_pipe, stderr.clone()));
        let ssh = Ssh {
            pid,
            end,
            has_ended,
            began,
            stderr,
            liveness: None,
        };
        Ok((ssh, stdin, stdout))
    }

    fn trouble(&self, what: String, remedy: String) -> HostTrouble {
        HostTrouble {
            host: self.assignment.name.clone(),
            what,
            remedy,
        }
    }

    fn cannot_start(&self, error: &io::Error) -> HostTrouble {
        self.trouble(
            format!(
                "cannot start `ssh` to reach host `{}`: {error}",
                self.target
            ),
            "install an ssh client here, e.g. `apt-get install openssh-client`".to_owned(),
        )
    }

    /// Waits for the agent's greeting, records when it came, checks its version and hands over
    /// the assignment.
    async fn exchange_greetings(
        &self,
        input: &mut pipe::Sender,
        output: &mut BufReader<pipe::Receiver>,
        greeted_at: &mut Instant,
    ) -> Result<LinkKind, GreetingError> {
        let mut noise = String::new();
        let version = loop {
            let line = next_line(output, &noise).await?;
            if let Some(version) = line.strip_prefix(GREETING) {
                break version.to_owned();
            }
            if noise.len() < OUTPUT_LIMIT {
                noise.push_str(&line);
                noise.push('\n');
            }
        };
        *greeted_at = Instant::now();
        if version != self.assignment.version {
            return Err(GreetingError::OtherVersion(version));
        }
        self.assign(input).await.map_err(|_| GreetingError::Ended {
            noise: noise.clone(),
        })?;
        match next_line(output, &noise).await?.as_str() {
            LINK_OVER_STDIO => Ok(LinkKind::OverStdio),
            LINK_OVER_TCP => Ok(LinkKind::OverTcp),
            _ => Err(GreetingError::Ended { noise }),
        }
    }

    fn other_version(&self, version: &str, wheel: Option<&str>) -> HostTrouble {
        let ours = &self.assignment.version;
        let by_hand = ssh::by_hand(&self.options.ssh, &self.target);
        self.trouble(
            format!(
                "host `{}` has horovod {version}, this host has {ours}",
                self.target
            ),
            ssh::install(Some(&by_hand), wheel, &self.options.interpreter),
        )
    }

    async fn link_of(
        &self,
        connection: oneshot::Receiver<SealedStream>,
    ) -> Result<LinkToAgent, HostTrouble> {
        let lost = |problem: String| {
            self.trouble(
                format!(
                    "the agent of host `{}` connected and was lost again: {problem}",
                    self.target
                ),
                "try again".to_owned(),
            )
        };
        let stream = connection
            .await
            .map_err(|_| lost("the connection is gone".to_owned()))?;
        let (reader, writer) = split(stream).map_err(|error| lost(error.to_string()))?;
        Ok(AgentLink::start(reader, writer))
    }
}

enum LinkKind {
    OverStdio,
    OverTcp,
}

enum GreetingError {
    /// Output ended without a greeting.
    Ended { noise: String },
    /// The agent is that of another version.
    OtherVersion(String),
}

/// The next line of what the other side prints, without its end.
async fn next_line(
    output: &mut BufReader<pipe::Receiver>,
    noise: &str,
) -> Result<String, GreetingError> {
    let mut line = Vec::new();
    let limit = u64::try_from(OUTPUT_LIMIT).unwrap_or(u64::MAX);
    let read = (&mut *output)
        .take(limit)
        .read_until(b'\n', &mut line)
        .await;
    if !matches!(read, Ok(length) if length > 0) {
        return Err(GreetingError::Ended {
            noise: noise.to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Keeps what `ssh` says, so that it does not wait for us and can be quoted.
async fn keep_stderr(mut pipe: pipe::Receiver, stderr: SshStderr) {
    let mut buffer = [0; 4096];
    while let Ok(length) = pipe.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        tracing::debug!(said = %String::from_utf8_lossy(&buffer[..length]), "ssh");
        stderr.add(&buffer[..length]);
    }
}
