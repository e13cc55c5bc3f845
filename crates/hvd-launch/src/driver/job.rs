//! The running job: waits for ends of ranks, events of other hosts, signals and deadlines, and does
//! what `lifecycle.rs` says about them. Runs on one thread, and nothing in its loop waits for the
//! console.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use hvd_rendezvous::{Server, blame};
use hvd_types::{Placement, Rank};
use rustix::process::{Signal, getpid};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep_until,
};

use super::{
    fleet::{Fleet, HostEvent},
    function::Results,
    lifecycle::{Action, EndCause, Lifecycle},
    phase_log::PhaseLog,
};
use crate::{
    debug::Roster,
    error::Result,
    messages,
    output::{ConsoleSender, ConsoleThread, Forwarder, OutputSource, PipeReader, Written},
    process::{
        Interrupts, LocalRanks, ProcessExit, RankEnd, RankOutput, Reaper, Stream, has_children,
        tree,
    },
    protocol::{AgentNotice, Urgency},
    spec::Stamp,
};

/// The running job.
pub(super) struct RunningJob {
    placements: Vec<Placement>,
    local_ranks: LocalRanks,
    fleet: Option<Fleet>,
    reaper: Reaper,
    ends: mpsc::UnboundedReceiver<RankEnd>,
    streams: OutputStreams,
    lifecycle: Lifecycle,
    phase_log: PhaseLog,
    began: Instant,
    /// What is known of the ranks, for the debug responder.
    roster: Roster,
}

/// All output on its way; each stream returns its last lines.
pub(super) struct OutputStreams {
    console: ConsoleSender,
    stamp: Stamp,
    all_gone: watch::Sender<bool>,
    forwarders: JoinSet<(Rank, Vec<String>)>,
}

impl OutputStreams {
    /// No output yet.
    pub(super) fn new(console: ConsoleSender, stamp: Stamp) -> Self {
        Self {
            console,
            stamp,
            all_gone: watch::Sender::new(false),
            forwarders: JoinSet::new(),
        }
    }

    /// Forwards a stream of a rank on this host.
    pub(super) fn add_pipe(&mut self, output: RankOutput) -> Result<()> {
        let RankOutput { rank, stream, pipe } = output;
        let pipe = PipeReader::new(pipe, self.all_gone.subscribe())?;
        self.add(rank, stream, OutputSource::Pipe(pipe));
        Ok(())
    }

    fn add(&mut self, rank: Rank, stream: Stream, source: OutputSource) {
        let forwarder = Forwarder::new(rank, stream, self.console.clone(), self.stamp);
        self.forwarders
            .spawn(async move { (rank, forwarder.run(source).await) });
    }

    /// Waits for the rest and returns the last lines by rank.
    async fn drain(mut self) -> HashMap<Rank, Vec<String>> {
        let mut tails: HashMap<Rank, Vec<String>> = HashMap::new();
        while let Some(ended) = self.forwarders.join_next().await {
            if let Ok((rank, tail)) = ended {
                tails.entry(rank).or_default().extend(tail);
            }
        }
        tails
    }
}

/// The ranks of a job, all started.
pub(super) struct JobRanks {
    pub(super) placements: Vec<Placement>,
    /// Those on this host.
    pub(super) local_ranks: LocalRanks,
    /// Those on other hosts.
    pub(super) fleet: Option<Fleet>,
    pub(super) reaper: Reaper,
    pub(super) ends: mpsc::UnboundedReceiver<RankEnd>,
    pub(super) roster: Roster,
}

impl RunningJob {
    /// A job whose ranks all run.
    pub(super) fn new(ranks: JobRanks, streams: OutputStreams, phase_log: PhaseLog) -> Self {
        let lifecycle = Lifecycle::new(ranks.placements.len());
        let JobRanks {
            placements,
            local_ranks,
            fleet,
            reaper,
            ends,
            roster,
        } = ranks;
        Self {
            placements,
            local_ranks,
            fleet,
            reaper,
            ends,
            streams,
            lifecycle,
            phase_log,
            began: Instant::now(),
            roster,
        }
    }

    /// What is known of the ranks, now and later.
    pub(super) fn roster(&self) -> Roster {
        self.roster.clone()
    }

    /// Why the job is ending, or has ended.
    pub(super) fn cause(&self) -> EndCause {
        self.lifecycle.cause()
    }

    fn placement(&self, rank: Rank) -> &Placement {
        &self.placements[rank.index()]
    }

    /// Everything after the last process is gone: the rest of the output, the report, the results.
    pub(super) async fn report(
        self,
        console_thread: ConsoleThread,
        results: Option<Results>,
        server: &Server,
    ) -> Result<Written> {
        let Self {
            placements,
            streams,
            lifecycle,
            phase_log,
            ..
        } = self;
        // The console thread ends when the last sender is dropped.
        drop(phase_log);
        let mut tails = streams.drain().await;
        let mut delivered = Ok(());
        match (lifecycle.cause(), results) {
            (EndCause::Failure(rank, outcome), results) => {
                let told = match results {
                    Some(results) => results.write_error(server, rank).await,
                    None => false,
                };
                if !told {
                    let tail = tails.remove(&rank).unwrap_or_default();
                    let blamed = lifecycle
                        .blamed()
                        .map(|(rank, state)| (&placements[rank.index()], state));
                    let failed = &placements[rank.index()];
                    let report = messages::failure_report(failed, outcome, blamed, &tail);
                    console_thread.sender().report(report).await;
                }
            }
            (EndCause::HostLost, _) => {
                if let Some((host, why)) = lifecycle.lost_host() {
                    let report = messages::host_lost(&placements, host, why);
                    console_thread.sender().report(report).await;
                }
            }
            (EndCause::Success, Some(results)) => {
                delivered = results.write(server, placements.len()).await;
            }
            _ => {}
        }
        let written = console_thread.finish().await;
        delivered.map(|()| written)
    }

    /// Returns when no process of the job is left, or the last deadline has passed.
    pub(super) async fn run(
        &mut self,
        interrupts: &mut Interrupts,
        console_thread: &ConsoleThread,
        server: &Server,
    ) {
        let mut reader_gone = false;
        let mut rounds = self.reaper.rounds();
        while !self.is_over() {
            let deadline = self.lifecycle.deadline();
            let action = tokio::select! {
                Some(RankEnd { rank, outcome }) = self.ends.recv() => {
                    self.on_rank_end(rank, outcome, server);
                    None
                }
                (host, event) = next_host_event(&mut self.fleet) => {
                    self.on_host_event(host, event, server);
                    None
                }
                _ = rounds.changed() => self.lifecycle.is_killing().then_some(Action::Kill),
                signal = interrupts.next() => self.interrupt(signal),
                () = console_thread.reader_gone(), if !reader_gone => {
                    reader_gone = true;
                    self.lifecycle.reader_gone(Instant::now())
                }
                () = until(deadline) => self.lifecycle.tick(Instant::now()),
            };
            if action.is_some() {
                self.read_blame(server);
            }
            if let Some(action) = action
                && !self.act(action)
            {
                break;
            }
        }
        self.read_blame(server);
        self.streams.all_gone.send_replace(true);
    }

    fn is_over(&self) -> bool {
        let elsewhere = self.fleet.as_ref().is_none_or(Fleet::is_over);
        elsewhere && self.ends.is_empty() && !has_children()
    }

    /// Reads the notes that failed ranks left about whose fault it was.
    fn read_blame(&mut self, server: &Server) {
        let note = |rank| server.get(&blame::key(rank));
        self.lifecycle
            .follow_blame(|rank| blame::culprit(&note(rank)?));
    }

    fn on_rank_end(&mut self, rank: Rank, outcome: ProcessExit, server: &Server) {
        // Ranks that wait for it in their init() need not wait any longer.
        server.end_rank(rank, &messages::how_ended(self.placement(rank), outcome));
        self.roster.ended(rank);
        self.lifecycle.worker_ended(rank, outcome, Instant::now());
        self.phase_log
            .verbose(|| messages::ended(rank, outcome, self.began.elapsed()));
    }

    /// Something has happened on another host.
    fn on_host_event(&mut self, host: usize, event: HostEvent, server: &Server) {
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        match event {
            HostEvent::Message(AgentNotice::Ended { rank, outcome }) => {
                let rank = Rank::new(rank);
                if fleet.host_mut(host).running.remove(&rank) {
                    self.on_rank_end(rank, outcome, server);
                }
            }
            HostEvent::Message(AgentNotice::Gone) => fleet.host_mut(host).is_over = true,
            HostEvent::Message(_) => {}
            HostEvent::Output {
                rank,
                stream,
                receiver,
            } => self
                .streams
                .add(rank, stream, OutputSource::Channel(receiver)),
            HostEvent::Lost(why) => {
                let host = fleet.host_mut(host);
                host.is_over = true;
                let running = std::mem::take(&mut host.running);
                let name = host.name.clone();
                self.lifecycle
                    .host_lost(&name, &why, &running, Instant::now());
            }
        }
    }

    fn interrupt(&mut self, signal: i32) -> Option<Action> {
        let action = self.lifecycle.interrupted(signal, Instant::now());
        if self.lifecycle.cause() == EndCause::Interrupted(signal)
            && action == Some(Action::Terminate)
        {
            self.phase_log
                .announce(messages::interrupted(signal, self.lifecycle.running()));
        }
        action
    }

    /// Does it; false if there is nothing more to wait for.
    fn act(&self, action: Action) -> bool {
        match action {
            Action::Terminate => {
                self.announce_cause();
                self.signal_everything(Signal::TERM, Urgency::Ask);
            }
            Action::Kill => self.signal_everything(Signal::KILL, Urgency::Kill),
            Action::GiveUp => {
                let left = tree::descendants(getpid(), &self.ssh_processes());
                let pids: Vec<i32> = left.iter().map(|entry| entry.pid).collect();
                self.phase_log.announce(messages::given_up(&pids));
            }
        }
        action != Action::GiveUp
    }

    /// Says why the others have to go.
    fn announce_cause(&self) {
        let others = self.lifecycle.running();
        if others == 0 {
            return;
        }
        match self.lifecycle.cause() {
            EndCause::Failure(rank, outcome) => {
                let placement = self.placement(rank);
                self.phase_log
                    .announce(messages::ending_others(placement, outcome, others));
            }
            EndCause::HostLost => {
                if let Some((host, why)) = self.lifecycle.lost_host() {
                    self.phase_log
                        .announce(messages::ending_after_loss(host, why));
                }
            }
            _ => {}
        }
    }

    fn ssh_processes(&self) -> HashSet<i32> {
        self.fleet
            .as_ref()
            .map(Fleet::processes)
            .unwrap_or_default()
    }

    fn signal_everything(&self, signal: Signal, urgency: Urgency) {
        self.local_ranks
            .signal_everything(signal, &self.ssh_processes());
        if let Some(fleet) = &self.fleet {
            fleet.end(urgency);
        }
    }
}

async fn next_host_event(fleet: &mut Option<Fleet>) -> (usize, HostEvent) {
    match fleet {
        Some(fleet) => fleet.next().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
