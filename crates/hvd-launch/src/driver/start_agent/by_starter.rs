//! Starts the agent of a host through `ssh` or a batch system's command: hands over the assignment,
//! reads the greeting, and opens the link. Everything that can go wrong is reported in the words of
//! `hosts/ssh/explain.rs` and `hosts/starter/explain.rs`.
//!
//! The agent is that of the Python whose path is that of this host's, else that of the `horovodrun`
//! on the other host's PATH. The shell there chooses between them by whether the Python exists;
//! where it exists without horovod, a second start asks for the other one, so that no job waits for
//! a question that almost always has the same answer.

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::unix::pipe,
    sync::oneshot,
    time::{Duration, Instant, timeout},
};

use super::{AgentStart, LinkToAgent, StartedAgent, starter_process::OUTPUT_LIMIT};
use crate::{
    driver::agent_port::{AgentIdentity, AgentPort},
    error::HostTrouble,
    hosts::{
        Starter,
        ssh::{self, SshFailure, own_files},
        starter::{self, Attempt},
    },
    link::{AgentLink, SealedStream, split},
    process::{ProcessExit, ReapedBy, Reaper},
    protocol::{GREETING, LINK_OVER_STDIO, LINK_OVER_TCP},
};

/// How long a starter that has closed its output may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a host has no agent for this job.
struct Refusal {
    cause: RefusalCause,
    trouble: HostTrouble,
}

/// Whether another installation may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalCause {
    /// There is no agent where it was looked for.
    AgentMissing,
    /// The interpreter has no horovod.
    NoHorovod,
    /// Anything else.
    Other,
}

impl From<HostTrouble> for Refusal {
    fn from(trouble: HostTrouble) -> Self {
        let cause = RefusalCause::Other;
        Self { cause, trouble }
    }
}

/// Reports both places where horovod was looked for: the Python of this host's path has none, and
/// the PATH has none either, or one that is of no use.
fn both(first: HostTrouble, second: Refusal) -> HostTrouble {
    if second.cause == RefusalCause::AgentMissing {
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
    /// Starts the agent of either installation and connects with it.
    pub(super) async fn start_by_starter(
        &self,
        reaper: &Reaper,
        port: &AgentPort,
    ) -> Result<StartedAgent, HostTrouble> {
        let interpreter = &self.options.interpreter;
        let first = match self.call(interpreter, reaper, port).await {
            Err(refusal) if refusal.cause == RefusalCause::NoHorovod => refusal,
            called => return called.map_err(|refusal| refusal.trouble),
        };
        let second = self.call("", reaper, port).await;
        second.map_err(|second| both(first.trouble, second))
    }

    /// Starts the agent, that of the interpreter if it is there, and connects with it.
    async fn call(
        &self,
        interpreter: &str,
        reaper: &Reaper,
        port: &AgentPort,
    ) -> Result<StartedAgent, Refusal> {
        let connection = port.expect(self.assignment.host, AgentIdentity::default());
        let (mut process, mut input, output) = self.start_process(interpreter, reaper)?;
        let mut output = BufReader::new(output);
        let mut greeted_at = Instant::now();
        let kind = self
            .exchange_greetings(&mut input, &mut output, &mut greeted_at)
            .await;
        let latency = greeted_at.saturating_duration_since(process.began);
        let assigned = Instant::now();
        let link = match kind {
            Ok(LinkKind::OverStdio) => AgentLink::start(output, input),
            Ok(LinkKind::OverTcp) => {
                process.liveness = Some(input);
                self.link_of(connection).await?
            }
            Err(GreetingError::OtherVersion(version)) => {
                let reaped_by = ReapedBy::Reaper(reaper.clone());
                let wheel = own_files::wheel(&self.options.interpreter, reaped_by).await;
                return Err(self.other_version(&version, wheel.as_deref()).into());
            }
            Err(GreetingError::Ended { noise }) => {
                drop(input);
                let end = timeout(END_TIMEOUT, &mut process.end).await;
                let code = end.ok().and_then(Result::ok).map(ProcessExit::status);
                return Err(self.refusal(code, &process.stderr(), &noise, reaper).await);
            }
        };
        Ok(StartedAgent {
            link,
            starter: Some(process),
            assigned,
            latency,
        })
    }

    /// What a starter that ended without an agent means.
    async fn refusal(
        &self,
        code: Option<i32>,
        stderr: &str,
        noise: &str,
        reaper: &Reaper,
    ) -> Refusal {
        let target = &self.target;
        if self.options.starter != Starter::Ssh {
            return self.batch_refusal(code, stderr, noise, reaper).await;
        }
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
        let cause = match explained.cause {
            SshFailure::AgentMissing => RefusalCause::AgentMissing,
            SshFailure::NoHorovod => RefusalCause::NoHorovod,
            _ => RefusalCause::Other,
        };
        Refusal {
            cause,
            trouble: self.trouble(explained.what, explained.remedy),
        }
    }

    /// The same for a batch system's command.
    async fn batch_refusal(
        &self,
        exit: Option<i32>,
        stderr: &str,
        noise: &str,
        reaper: &Reaper,
    ) -> Refusal {
        let reaped_by = ReapedBy::Reaper(reaper.clone());
        let wheel = own_files::wheel(&self.options.interpreter, reaped_by).await;
        let by_hand = self.by_hand();
        let attempt = Attempt {
            host: &self.target,
            exit,
            stderr,
            noise,
            by_hand: &by_hand,
            wheel: wheel.as_deref(),
        };
        let explained = starter::explain(self.options.starter, &attempt);
        Refusal {
            cause: if explained.lacks_horovod {
                RefusalCause::NoHorovod
            } else {
                RefusalCause::Other
            },
            trouble: self.trouble(explained.what, explained.remedy),
        }
    }

    /// What a person types in front of a command for this host.
    pub(crate) fn by_hand(&self) -> String {
        self.options
            .starter
            .by_hand(&self.options.ssh, &self.target)
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
        let by_hand = self.by_hand();
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
