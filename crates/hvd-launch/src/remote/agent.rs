//! The agent of a host: starts the ranks it is told to start, passes their output and their ends
//! on, and leaves no process behind when the driver, the network or the job is gone.
//!
//! - `AGENT-1` it starts nothing before the driver says so, and says nothing but its greeting
//!   before it knows the job.
//! - `AGENT-2` if the link is lost, or the `ssh` that carried it, its ranks are asked to end and
//!   killed [`LAST_CHANCE`] later.
//! - `AGENT-3` it ends when no process of the job is left on its host.

use std::{
    collections::HashSet,
    ffi::OsString,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use hvd_rendezvous::JobKey;
use hvd_types::Rank;
use rustix::process::{Pid, Signal, getppid};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use super::{
    back,
    facts::{self, HostFacts, Question},
    message::{Assignment, BACK, GREETING, HERE, Notice, Opening, Order, Secret, Urgency},
    probe::ProbePort,
    resolve::this_machine,
    stdio::{self, Input, Output},
    subprocess::Custody,
    summon::adopt,
    survey, tunnel,
};
use crate::{
    Error, Result,
    exec::{
        Crew, Interrupts, KeyFile, PipeReader, RankEnd, RankOutput, RankTask, Reaper, aside,
        has_children,
    },
    link::{ChannelSender, Link, News},
    messages,
    plan::{Meeting, Reach, meeting_variables, passed_on},
};

/// How long a driver may take to say what is to be done.
const ASSIGNMENT: Duration = Duration::from_secs(60);

/// The most bytes an assignment may have.
const ASSIGNMENT_LIMIT: u32 = 64 << 20;

/// How long a host may take to say what it is.
const FACTS: Duration = Duration::from_secs(10);

/// How long ranks may take to end once nobody is there any more to see it.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// How long the last words of an agent may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

type DriverLink = Link<Order, ()>;

/// All of an agent's life, over its standard input and output.
pub(crate) async fn serve(interrupts: &mut Interrupts, key_file: &Path) -> Result<i32> {
    let failed = Error::system("use standard input and output");
    let (mut input, mut output) = stdio::open().map_err(&failed)?;
    let greeting = format!("{GREETING}{}\n", env!("CARGO_PKG_VERSION"));
    output
        .write_all(greeting.as_bytes())
        .await
        .map_err(&failed)?;
    let Some(assignment) = timeout(ASSIGNMENT, read_assignment(&mut input))
        .await
        .unwrap_or(Ok(None))
        .map_err(&failed)?
    else {
        // The driver found something wrong, with our version perhaps, and has left.
        return Ok(0);
    };
    let Secret::Key(key) = &assignment.secret else {
        return Err(failed(io::ErrorKind::InvalidData.into()));
    };
    let key = JobKey::from_hex(key)?;
    let (link, leash) = open_link(&assignment, &key, input, output)
        .await
        .map_err(&failed)?;
    work(assignment, link, key, key_file, interrupts, leash).await
}

/// Whom an agent that was started beforehand calls, and as whom.
#[derive(Clone)]
pub struct Calling {
    /// The driver's host and port.
    pub driver: String,
    /// The secret that both know.
    pub token: String,
    /// The name of this host in the job, if not its own.
    pub name: Option<String>,
}

impl std::fmt::Debug for Calling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calling")
            .field("driver", &self.driver)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The exit status of an agent that nobody answers.
pub(crate) const NOBODY: i32 = 75;

/// Serves the driver that answers, if one does.
pub(crate) async fn call(
    calling: &Calling,
    interrupts: &mut Interrupts,
    key_file: &Path,
) -> Result<i32> {
    let failed = Error::system("speak with the driver");
    let token = JobKey::from_token(&calling.token);
    let answered = tokio::select! {
        stream = introduce(calling, &token) => stream,
        signal = interrupts.next() => return Ok(128 + signal),
    };
    let Some(stream) = answered else {
        return Ok(NOBODY);
    };
    let (mut reader, writer) = adopt(stream).map_err(&failed)?.into_split();
    // A driver that does not expect this host hangs up.
    let assignment = timeout(ASSIGNMENT, read_assignment(&mut reader)).await;
    let Ok(Ok(Some(assignment))) = assignment else {
        return Ok(NOBODY);
    };
    let Secret::Nonce(nonce) = &assignment.secret else {
        return Err(failed(io::ErrorKind::InvalidData.into()));
    };
    let key = token.derive(nonce);
    let link = Link::start(reader, writer);
    work(assignment, link, key, key_file, interrupts, None).await
}

async fn introduce(calling: &Calling, token: &JobKey) -> Option<std::net::TcpStream> {
    let name = calling.name.clone().unwrap_or_else(this_machine);
    let (driver, token) = (calling.driver.clone(), token.clone());
    let (sender, answer) = oneshot::channel();
    aside("hvd-call", move || {
        let _ = sender.send(back::introduce(&driver, &token, &name));
    });
    match answer.await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::info!(%error, "no driver answers");
            None
        }
        Err(_) => None,
    }
}

/// Does what the assignment says.
async fn work(
    assignment: Assignment,
    link: DriverLink,
    key: JobKey,
    key_file: &Path,
    interrupts: &mut Interrupts,
    leash: Option<Input>,
) -> Result<i32> {
    let key_file = KeyFile::create(key_file, &key)?;
    let probe_port = ProbePort::open(assignment.port_range, &key, assignment.host)?;
    let facts = look_around(&assignment).await?;
    link.outgoing().say(&Notice::Hello {
        probe_port: probe_port.number(),
        facts: Box::new(facts),
    });
    let secrets = Secrets {
        key,
        key_file,
        probe_port: Some(probe_port),
    };
    Agent::new(assignment, link, secrets)?
        .run(interrupts, leash)
        .await
}

/// What an agent needs the job's key for.
struct Secrets {
    key: JobKey,
    key_file: KeyFile,
    /// Closed before ranks start, which may want its number.
    probe_port: Option<ProbePort>,
}

fn question(assignment: &Assignment) -> Question {
    let own = std::env::vars_os();
    let all = own.chain(assignment.environment.iter().cloned());
    Question {
        directory: assignment.directory.to_string_lossy().into_owned(),
        command: assignment.command.clone(),
        environment: all
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
    }
}

/// Gathers facts, on a thread of its own: a file system that is gone holds up whoever asks for it.
async fn look_around(assignment: &Assignment) -> Result<HostFacts> {
    let question = question(assignment);
    let (sender, facts) = oneshot::channel();
    aside("hvd-facts", move || {
        let _ = sender.send(facts::gather(&question));
    });
    let facts = timeout(FACTS, facts).await;
    facts.ok().and_then(Result::ok).ok_or_else(|| {
        Error::system("look at the working directory")(io::ErrorKind::TimedOut.into())
    })
}

async fn read_assignment(
    input: &mut (impl AsyncReadExt + Unpin),
) -> io::Result<Option<Assignment>> {
    let Ok(length) = input.read_u32_le().await else {
        return Ok(None);
    };
    if length > ASSIGNMENT_LIMIT {
        return Err(io::Error::other("the assignment is too long"));
    }
    let mut bytes = vec![0; length as usize];
    input.read_exact(&mut bytes).await?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// The link, and what is left of standard input if it is not part of that: its end is the end of
/// the driver, or of the `ssh` that started us.
async fn open_link(
    assignment: &Assignment,
    key: &JobKey,
    input: Input,
    mut output: Output,
) -> io::Result<(DriverLink, Option<Input>)> {
    let back = back::reach(assignment, key).await;
    let word = if back.is_some() { BACK } else { HERE };
    output.write_all(format!("{word}\n").as_bytes()).await?;
    let Some(stream) = back else {
        return Ok((Link::start(input, output), None));
    };
    let (reader, writer) = adopt(stream)?.into_split();
    Ok((Link::start(reader, writer), Some(input)))
}

struct Agent {
    assignment: Assignment,
    link: DriverLink,
    /// Where the ranks of this host find the store, once there are any.
    store: Option<TcpListener>,
    secrets: Secrets,
    reaper: Reaper,
    /// Our parent, as long as it lives.
    keeper: Option<Pid>,
    crew: Crew,
    ends: (
        mpsc::UnboundedSender<RankEnd>,
        mpsc::UnboundedReceiver<RankEnd>,
    ),
    all_gone: watch::Sender<bool>,
    outputs: JoinSet<()>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was started yet.
    Waiting,
    /// The ranks run, or are ending on the driver's orders.
    Running,
    /// The driver is gone; at this time whoever is left is killed.
    Deserted(Instant),
    /// The driver is gone and the last SIGKILL was sent; at this time the rest is left to the system.
    Killed(Instant),
}

impl Agent {
    fn new(assignment: Assignment, link: DriverLink, secrets: Secrets) -> Result<Self> {
        Ok(Self {
            assignment,
            link,
            store: None,
            secrets,
            reaper: Reaper::start()?,
            keeper: getppid(),
            crew: Crew::default(),
            ends: mpsc::unbounded_channel(),
            all_gone: watch::Sender::new(false),
            outputs: JoinSet::new(),
            phase: Phase::Waiting,
        })
    }

    async fn run(mut self, interrupts: &mut Interrupts, leash: Option<Input>) -> Result<i32> {
        let mut rounds = self.reaper.rounds();
        let leash = end_of(leash);
        tokio::pin!(leash);
        let mut leashed = true;
        while !self.is_over() {
            let deadline = self.deadline();
            tokio::select! {
                news = self.link.hear(), if !self.is_deserted() => match news {
                    News::Said(order) => self.obey(order),
                    News::Opened((), _) => {}
                    News::Lost(_) => self.desert(),
                },
                // Ranks that we end ourselves have done nothing wrong.
                Some(end) = self.ends.1.recv() => if !self.is_deserted() {
                    self.report(end);
                },
                Ok((stream, _)) = guest(self.store.as_ref()) => {
                    let channel = self.link.open(&Opening::Store);
                    tokio::spawn(tunnel::carry(stream, channel));
                }
                _ = rounds.changed() => {}
                () = &mut leash, if leashed => {
                    leashed = false;
                    self.desert();
                }
                signal = interrupts.next() => self.leave(signal),
                () = until(deadline) => self.lose_patience(),
            }
        }
        self.take_leave().await;
        Ok(0)
    }

    fn is_deserted(&self) -> bool {
        matches!(self.phase, Phase::Deserted(_) | Phase::Killed(_))
    }

    fn is_over(&self) -> bool {
        let given_up = matches!(self.phase, Phase::Killed(end) if Instant::now() >= end);
        given_up || self.phase != Phase::Waiting && !has_children() && self.ends.1.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Deserted(end) | Phase::Killed(end) => Some(end),
            Phase::Waiting | Phase::Running => None,
        }
    }

    fn obey(&mut self, order: Order) {
        let outgoing = self.link.outgoing().clone();
        match order {
            Order::Look => {
                let (question, custody) = (question(&self.assignment), self.custody());
                return survey::look(question, custody, move |extra| {
                    let extra = Box::new(extra);
                    outgoing.say(&Notice::Looked { extra });
                });
            }
            Order::Probe(targets) => {
                let tell = move |target, result| outgoing.say(&Notice::Probed { target, result });
                return survey::probe_all(targets, &self.secrets.key, tell);
            }
            Order::Load(target) => {
                return survey::load(target, &self.secrets.key, move |result| {
                    outgoing.say(&Notice::Loaded { target, result });
                });
            }
            Order::Start { variables } => self.start(&variables),
            Order::End(Urgency::Ask) => self.signal(Signal::TERM),
            Order::End(Urgency::Kill) => self.signal(Signal::KILL),
        }
        // An order to end can come before anything was started.
        if self.phase == Phase::Waiting {
            self.phase = Phase::Running;
        }
    }

    fn custody(&self) -> Custody {
        Custody::Reaper(self.reaper.clone())
    }

    fn signal(&self, signal: Signal) {
        self.crew.signal_everything(signal, &HashSet::new());
    }

    fn start(&mut self, variables: &[(String, String)]) {
        self.secrets.probe_port = None;
        let notice = match self.try_start(variables) {
            Ok(()) => Notice::Started {
                pids: self
                    .crew
                    .pids()
                    .map(|(rank, pid)| (rank.number(), pid))
                    .collect(),
            },
            Err(error) => {
                self.signal(Signal::KILL);
                Notice::Failed {
                    code: error.exit_code(),
                    problem: error.to_string(),
                }
            }
        };
        self.link.outgoing().say(&notice);
    }

    fn try_start(&mut self, variables: &[(String, String)]) -> Result<()> {
        let address = self
            .open_store()
            .map_err(Error::system("open a port for the ranks of this host"))?;
        let meeting = meeting_variables(Meeting {
            address,
            key_file: self.secrets.key_file.path(),
        });
        let tasks: Vec<RankTask> = self.tasks(variables, &meeting);
        let Assignment {
            command, directory, ..
        } = &self.assignment;
        if !directory.is_dir() {
            return Err(Error::NoDirectory {
                path: directory.clone(),
            });
        }
        let (crew, outputs) =
            Crew::start(command, Some(directory), &tasks, &self.reaper, &self.ends.0)?;
        self.crew = crew;
        for RankOutput { rank, stream, pipe } in outputs {
            let pipe = PipeReader::new(pipe, self.all_gone.subscribe())?;
            let rank = rank.number();
            let channel = self.link.open(&Opening::Output { rank, stream });
            self.outputs.spawn(pump(pipe, channel.sender));
        }
        Ok(())
    }

    /// Opened as late as this: before, there is nobody who would come for good.
    fn open_store(&mut self) -> io::Result<SocketAddr> {
        let store = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        store.set_nonblocking(true)?;
        let store = self.store.insert(TcpListener::from_std(store)?);
        store.local_addr()
    }

    /// Later variables win: this host's own, the driver's, the job's, the rank's.
    fn tasks(
        &self,
        variables: &[(String, String)],
        meeting: &[(&'static str, OsString)],
    ) -> Vec<RankTask> {
        let own: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let own: Vec<_> = passed_on(&own, Reach::SameHost).collect();
        let task = |rank: &super::message::RankAssignment| {
            let told = variables.iter().chain(&rank.variables);
            let told = told.map(|(name, value)| (name.into(), value.into()));
            let met = meeting
                .iter()
                .map(|(name, value)| ((*name).into(), value.clone()));
            RankTask {
                rank: Rank::new(rank.rank),
                environment: own
                    .iter()
                    .chain(&self.assignment.environment)
                    .cloned()
                    .chain(told)
                    .chain(met)
                    .collect(),
            }
        };
        self.assignment.ranks.iter().map(task).collect()
    }

    fn report(&self, end: RankEnd) {
        self.link.outgoing().say(&Notice::Ended {
            rank: end.rank.number(),
            outcome: end.outcome,
        });
    }

    /// Somebody wants us to end: a person, or the kernel because our keeper was killed.
    fn leave(&mut self, signal: i32) {
        let why = if getppid() == self.keeper {
            messages::agent_ended(signal)
        } else {
            messages::agent_unkept()
        };
        self.link.outgoing().say(&Notice::Leaving { why });
        self.desert();
    }

    /// Nobody is there any more who could want the ranks.
    fn desert(&mut self) {
        if !self.is_deserted() {
            self.signal(Signal::TERM);
            self.phase = Phase::Deserted(Instant::now() + LAST_CHANCE);
        }
    }

    fn lose_patience(&mut self) {
        self.signal(Signal::KILL);
        self.phase = Phase::Killed(Instant::now() + LAST_CHANCE);
    }

    async fn take_leave(mut self) {
        self.all_gone.send_replace(true);
        if self.is_deserted() {
            return;
        }
        let outputs = async { while self.outputs.join_next().await.is_some() {} };
        let lost = async { while !matches!(self.link.hear().await, News::Lost(_)) {} };
        tokio::select! {
            () = outputs => {}
            () = lost => {}
        }
        self.link.outgoing().say(&Notice::Gone);
        self.link.finish(LAST_WORDS).await;
    }
}

/// Passes one stream on; if the driver is gone, reads on so that nobody is held up.
async fn pump(mut pipe: PipeReader, channel: ChannelSender) {
    while let Some(bytes) = pipe.next().await {
        let _ = channel.send(bytes).await;
    }
}

async fn end_of(leash: Option<Input>) {
    let Some(mut input) = leash else {
        return std::future::pending().await;
    };
    let mut nothing = [0; 64];
    while input
        .read(&mut nothing)
        .await
        .is_ok_and(|length| length > 0)
    {}
}

async fn guest(store: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match store {
        Some(store) => store.accept().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
