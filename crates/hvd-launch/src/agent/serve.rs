//! The agent of a host: starts the ranks that the driver assigns, passes their output and their
//! ends on, and leaves no process behind when the driver, the network or the job is gone.
//!
//! - `AGENT-1` it starts nothing before the driver says so, and says nothing but its greeting
//!   before it knows the job.
//! - `AGENT-2` if the link is lost, or the `ssh` that carried it, its ranks are asked to end and
//!   killed [`KILL_AFTER`] later.
//! - `AGENT-3` it ends when no process of the job is left on its host.

use std::{collections::HashSet, ffi::OsString, io, net::SocketAddr, time::Duration};

use hvd_rendezvous::JobKey;
use hvd_types::Rank;
use rustix::process::{Pid, Signal, getppid};
use tokio::{
    io::AsyncReadExt,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    stdio::StdinStream,
    store_port::{self, RankConnection, StorePort},
};
use crate::{
    error::{Error, Result},
    hosts::{facts::Question, measure, probe::ProbePort},
    link::{AgentLink, ChannelSender, LinkEvent},
    messages,
    output::PipeReader,
    process::{
        Interrupts, KeyFile, LocalRanks, RankCommand, RankEnd, RankOutput, RankTask, ReapedBy,
        Reaper, StoreLocation, WorkerHost, container::outside, has_children, passed_on,
        store_variables,
    },
    protocol::{AgentNotice, AgentOrder, Assignment, Opening, Urgency},
};

/// How long ranks may take to end once the driver is gone.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// How long sending the exit report of an agent may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) type LinkToDriver = AgentLink<AgentOrder, ()>;

/// What an agent needs the job's key for.
pub(super) struct Secrets {
    pub(super) key: JobKey,
    pub(super) key_file: KeyFile,
    /// Closed before ranks start, which may want its number.
    pub(super) probe_port: Option<ProbePort>,
}

pub(super) struct Agent {
    assignment: Assignment,
    link: LinkToDriver,
    /// Where the ranks of this host find the store, once there are any.
    store: Option<StorePort>,
    secrets: Secrets,
    reaper: Reaper,
    /// Our parent, as long as it lives.
    supervisor: Option<Pid>,
    local_ranks: LocalRanks,
    ends: (
        mpsc::UnboundedSender<RankEnd>,
        mpsc::UnboundedReceiver<RankEnd>,
    ),
    all_gone: watch::Sender<bool>,
    outputs: JoinSet<()>,
    phase: AgentPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentPhase {
    /// Nothing was started yet.
    Waiting,
    /// The ranks run, or are ending on the driver's orders.
    Running,
    /// The driver is gone; at this time the ranks that are left are killed.
    Orphaned(Instant),
    /// The driver is gone and the last SIGKILL was sent; at this time the rest is left to the
    /// system.
    Killed(Instant),
}

impl Agent {
    pub(super) fn new(
        assignment: Assignment,
        link: LinkToDriver,
        secrets: Secrets,
    ) -> Result<Self> {
        Ok(Self {
            assignment,
            link,
            store: None,
            secrets,
            reaper: Reaper::start()?,
            supervisor: getppid(),
            local_ranks: LocalRanks::default(),
            ends: mpsc::unbounded_channel(),
            all_gone: watch::Sender::new(false),
            outputs: JoinSet::new(),
            phase: AgentPhase::Waiting,
        })
    }

    pub(super) async fn run(
        mut self,
        interrupts: &mut Interrupts,
        liveness: Option<StdinStream>,
    ) -> Result<i32> {
        let mut rounds = self.reaper.rounds();
        let liveness = end_of(liveness);
        tokio::pin!(liveness);
        let mut is_watched = true;
        while !self.is_over() {
            let deadline = self.deadline();
            tokio::select! {
                event = self.link.next_event(), if !self.is_orphaned() => match event {
                    LinkEvent::Message(order) => self.handle_order(order),
                    LinkEvent::ChannelOpened((), _) => {}
                    LinkEvent::Lost(_) => self.on_driver_lost(),
                },
                // Ranks that we end ourselves have done nothing wrong.
                Some(end) = self.ends.1.recv() => if !self.is_orphaned() {
                    self.report(end);
                },
                Some(connection) = next_store_connection(self.store.as_mut()) => {
                    let channel = self.link.open(&Opening::Store);
                    tokio::spawn(store_port::enter(connection, channel));
                }
                _ = rounds.changed() => {}
                () = &mut liveness, if is_watched => {
                    is_watched = false;
                    self.on_driver_lost();
                }
                signal = interrupts.next() => self.on_signal(signal),
                () = until(deadline) => self.kill_ranks(),
            }
        }
        self.finish().await;
        Ok(0)
    }

    fn is_orphaned(&self) -> bool {
        matches!(self.phase, AgentPhase::Orphaned(_) | AgentPhase::Killed(_))
    }

    fn is_over(&self) -> bool {
        let given_up = matches!(self.phase, AgentPhase::Killed(end) if Instant::now() >= end);
        given_up || self.phase != AgentPhase::Waiting && !has_children() && self.ends.1.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase {
            AgentPhase::Orphaned(end) | AgentPhase::Killed(end) => Some(end),
            AgentPhase::Waiting | AgentPhase::Running => None,
        }
    }

    fn handle_order(&mut self, order: AgentOrder) {
        let outgoing = self.link.outgoing().clone();
        match order {
            AgentOrder::Look => {
                let (question, reaped_by) = (question(&self.assignment), self.reaped_by());
                return measure::look(question, reaped_by, move |extra| {
                    let extra = Box::new(extra);
                    outgoing.send_message(&AgentNotice::Looked { extra });
                });
            }
            AgentOrder::Probe(targets) => {
                let on_result = move |target, result| {
                    outgoing.send_message(&AgentNotice::Probed { target, result });
                };
                return measure::probe_all(targets, &self.secrets.key, on_result);
            }
            AgentOrder::Load(target) => {
                return measure::load(target, &self.secrets.key, move |result| {
                    outgoing.send_message(&AgentNotice::Loaded { target, result });
                });
            }
            AgentOrder::Start { variables } => self.start(&variables),
            AgentOrder::End(Urgency::Ask) => self.signal(Signal::TERM),
            AgentOrder::End(Urgency::Kill) => self.signal(Signal::KILL),
        }
        // An order to end can come before anything was started.
        if self.phase == AgentPhase::Waiting {
            self.phase = AgentPhase::Running;
        }
    }

    fn reaped_by(&self) -> ReapedBy {
        ReapedBy::Reaper(self.reaper.clone())
    }

    fn signal(&self, signal: Signal) {
        self.local_ranks.signal_everything(signal, &HashSet::new());
    }

    fn start(&mut self, variables: &[(String, String)]) {
        self.secrets.probe_port = None;
        let notice = match self.try_start(variables) {
            Ok(()) => AgentNotice::Started {
                pids: self
                    .local_ranks
                    .pids()
                    .map(|(rank, pid)| (rank.number(), pid))
                    .collect(),
            },
            Err(error) => {
                self.signal(Signal::KILL);
                AgentNotice::Failed {
                    code: error.exit_code(),
                    problem: error.to_string(),
                }
            }
        };
        self.link.outgoing().send_message(&notice);
    }

    fn try_start(&mut self, variables: &[(String, String)]) -> Result<()> {
        let address = self
            .open_store()
            .map_err(Error::system("open a port for the ranks of this host"))?;
        let store_location = store_variables(StoreLocation {
            address,
            key_file: self.secrets.key_file.path(),
        });
        let tasks: Vec<RankTask> = self.tasks(variables, &store_location);
        let Assignment {
            command,
            directory,
            container,
            ..
        } = &self.assignment;
        if !directory.is_dir() {
            return Err(Error::NoDirectory {
                path: directory.clone(),
            });
        }
        let command = RankCommand {
            command,
            directory,
            container: container.as_ref(),
        };
        let (local_ranks, outputs) =
            LocalRanks::start(&command, &tasks, &self.reaper, &self.ends.0)?;
        self.local_ranks = local_ranks;
        for RankOutput { rank, stream, pipe } in outputs {
            let pipe = PipeReader::new(pipe, self.all_gone.subscribe())?;
            let rank = rank.number();
            let channel = self.link.open(&Opening::Output { rank, stream });
            self.outputs.spawn(pump(pipe, channel.sender));
        }
        Ok(())
    }

    /// Opened as late as this: before, no rank runs that would connect.
    fn open_store(&mut self) -> io::Result<SocketAddr> {
        let (store, address) = StorePort::open(&self.secrets.key)?;
        self.store = Some(store);
        Ok(address)
    }

    /// Later variables win: this host's own, the driver's, the job's, the rank's.
    fn tasks(
        &self,
        variables: &[(String, String)],
        store_location: &[(&'static str, OsString)],
    ) -> Vec<RankTask> {
        let own: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let own: Vec<_> = passed_on(&own, WorkerHost::SameHost).collect();
        let task = |rank: &crate::protocol::RankAssignment| {
            let from_driver = variables.iter().chain(&rank.variables);
            let from_driver = from_driver.map(|(name, value)| (name.into(), value.into()));
            let store = store_location
                .iter()
                .map(|(name, value)| ((*name).into(), value.clone()));
            RankTask {
                rank: Rank::new(rank.rank),
                environment: own
                    .iter()
                    .chain(&self.assignment.environment)
                    .cloned()
                    .chain(from_driver)
                    .chain(store)
                    .collect(),
            }
        };
        self.assignment.ranks.iter().map(task).collect()
    }

    fn report(&self, end: RankEnd) {
        self.link.outgoing().send_message(&AgentNotice::Ended {
            rank: end.rank.number(),
            outcome: end.outcome,
        });
    }

    /// A signal ends us: from a person, or from the kernel because our supervisor was killed.
    fn on_signal(&mut self, signal: i32) {
        let why = if getppid() == self.supervisor {
            messages::agent_ended(signal)
        } else {
            messages::agent_unkept()
        };
        self.link
            .outgoing()
            .send_message(&AgentNotice::Leaving { why });
        self.on_driver_lost();
    }

    /// The driver is gone: the ranks are of no use any more.
    fn on_driver_lost(&mut self) {
        if !self.is_orphaned() {
            self.signal(Signal::TERM);
            self.phase = AgentPhase::Orphaned(Instant::now() + KILL_AFTER);
        }
    }

    fn kill_ranks(&mut self) {
        self.signal(Signal::KILL);
        self.phase = AgentPhase::Killed(Instant::now() + KILL_AFTER);
    }

    async fn finish(mut self) {
        self.all_gone.send_replace(true);
        if self.is_orphaned() {
            return;
        }
        let outputs = async { while self.outputs.join_next().await.is_some() {} };
        let lost = async { while !matches!(self.link.next_event().await, LinkEvent::Lost(_)) {} };
        tokio::select! {
            () = outputs => {}
            () = lost => {}
        }
        self.link.outgoing().send_message(&AgentNotice::Gone);
        self.link.finish(FLUSH_TIMEOUT).await;
    }
}

pub(super) fn question(assignment: &Assignment) -> Question {
    let own = std::env::vars_os();
    let all = own.chain(assignment.environment.iter().cloned());
    Question {
        directory: assignment.directory.to_string_lossy().into_owned(),
        command: outside(&assignment.command, assignment.container.as_ref()),
        environment: all
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
    }
}

/// Passes one stream on; if the driver is gone, reads on so that the rank is not blocked.
async fn pump(mut pipe: PipeReader, channel: ChannelSender) {
    while let Some(bytes) = pipe.next().await {
        let _ = channel.send(bytes).await;
    }
}

async fn end_of(liveness: Option<StdinStream>) {
    let Some(mut input) = liveness else {
        return std::future::pending().await;
    };
    let mut nothing = [0; 64];
    while input
        .read(&mut nothing)
        .await
        .is_ok_and(|length| length > 0)
    {}
}

async fn next_store_connection(store: Option<&mut StorePort>) -> Option<RankConnection> {
    match store {
        Some(store) => store.next().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
