//! The running job: waits for ends of ranks, news of other hosts, signals and deadlines, and does
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
    fleet::{Fleet, HostNews},
    function::Results,
    lifecycle::{Action, Cause, Course},
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
    protocol::{Notice, Urgency},
    spec::Stamp,
};

/// The running job.
pub(super) struct Job {
    placements: Vec<Placement>,
    local_ranks: LocalRanks,
    fleet: Option<Fleet>,
    reaper: Reaper,
    ends: mpsc::UnboundedReceiver<RankEnd>,
    streams: OutputStreams,
    course: Course,
    phase_log: PhaseLog,
    began: Instant,
    /// What is known of the ranks, for whoever asks.
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
pub(super) struct Ranks {
    pub(super) placements: Vec<Placement>,
    /// Those on this host.
    pub(super) local_ranks: LocalRanks,
    /// Those on other hosts.
    pub(super) fleet: Option<Fleet>,
    pub(super) reaper: Reaper,
    pub(super) ends: mpsc::UnboundedReceiver<RankEnd>,
    pub(super) roster: Roster,
}

impl Job {
    /// A job whose ranks all run.
    pub(super) fn new(ranks: Ranks, streams: OutputStreams, phase_log: PhaseLog) -> Self {
        let course = Course::new(ranks.placements.len());
        let Ranks {
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
            course,
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
    pub(super) fn cause(&self) -> Cause {
        self.course.cause()
    }

    fn placement(&self, rank: Rank) -> &Placement {
        &self.placements[rank.index()]
    }

    /// Everything after the last process is gone: the rest of the output, the report, the results.
    pub(super) async fn last_words(
        self,
        console_thread: ConsoleThread,
        results: Option<Results>,
        server: &Server,
    ) -> Result<Written> {
        let Self {
            placements,
            streams,
            course,
            phase_log,
            ..
        } = self;
        // The console thread ends when the last sender is dropped.
        drop(phase_log);
        let mut tails = streams.drain().await;
        let mut delivered = Ok(());
        match (course.cause(), results) {
            (Cause::Failure(rank, outcome), results) => {
                let told = match results {
                    Some(results) => results.write_error(server, rank).await,
                    None => false,
                };
                if !told {
                    let tail = tails.remove(&rank).unwrap_or_default();
                    let blamed = course
                        .blamed()
                        .map(|(rank, state)| (&placements[rank.index()], state));
                    let failed = &placements[rank.index()];
                    let report = messages::failure_report(failed, outcome, blamed, &tail);
                    console_thread.sender().report(report).await;
                }
            }
            (Cause::HostLost, _) => {
                if let Some((host, why)) = course.lost_host() {
                    let report = messages::host_lost(&placements, host, why);
                    console_thread.sender().report(report).await;
                }
            }
            (Cause::Success, Some(results)) => {
                delivered = results.write(server, placements.len()).await;
            }
            _ => {}
        }
        let written = console_thread.finish().await;
        delivered.map(|()| written)
    }

    /// Returns when no process of the job is left, or the last deadline has passed.
    pub(super) async fn take_its_course(
        &mut self,
        interrupts: &mut Interrupts,
        console_thread: &ConsoleThread,
        server: &Server,
    ) {
        let mut reader_gone = false;
        let mut rounds = self.reaper.rounds();
        while !self.is_over() {
            let deadline = self.course.deadline();
            let action = tokio::select! {
                Some(RankEnd { rank, outcome }) = self.ends.recv() => {
                    self.note_end(rank, outcome, server);
                    None
                }
                (host, news) = next_news(&mut self.fleet) => {
                    self.hear(host, news, server);
                    None
                }
                _ = rounds.changed() => self.course.is_killing().then_some(Action::Kill),
                signal = interrupts.next() => self.interrupt(signal),
                () = console_thread.reader_gone(), if !reader_gone => {
                    reader_gone = true;
                    self.course.reader_gone(Instant::now())
                }
                () = until(deadline) => self.course.tick(Instant::now()),
            };
            if action.is_some() {
                self.hear_blame(server);
            }
            if let Some(action) = action
                && !self.act(action)
            {
                break;
            }
        }
        self.hear_blame(server);
        self.streams.all_gone.send_replace(true);
    }

    fn is_over(&self) -> bool {
        let elsewhere = self.fleet.as_ref().is_none_or(Fleet::is_over);
        elsewhere && self.ends.is_empty() && !has_children()
    }

    /// Reads the notes that failed ranks left about whose fault it was.
    fn hear_blame(&mut self, server: &Server) {
        let note = |rank| server.get(&blame::key(rank));
        self.course
            .follow_blame(|rank| blame::culprit(&note(rank)?));
    }

    fn note_end(&mut self, rank: Rank, outcome: ProcessExit, server: &Server) {
        // Ranks that wait for it in their init() need not wait any longer.
        server.end_rank(rank, &messages::how_ended(self.placement(rank), outcome));
        self.roster.ended(rank);
        self.course.worker_ended(rank, outcome, Instant::now());
        self.phase_log
            .verbose(|| messages::ended(rank, outcome, self.began.elapsed()));
    }

    /// Something has happened on another host.
    fn hear(&mut self, host: usize, news: HostNews, server: &Server) {
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        match news {
            HostNews::Said(Notice::Ended { rank, outcome }) => {
                let rank = Rank::new(rank);
                if fleet.host_mut(host).running.remove(&rank) {
                    self.note_end(rank, outcome, server);
                }
            }
            HostNews::Said(Notice::Gone) => fleet.host_mut(host).is_over = true,
            HostNews::Said(_) => {}
            HostNews::Output {
                rank,
                stream,
                receiver,
            } => self
                .streams
                .add(rank, stream, OutputSource::Channel(receiver)),
            HostNews::Lost(why) => {
                let host = fleet.host_mut(host);
                host.is_over = true;
                let running = std::mem::take(&mut host.running);
                let name = host.name.clone();
                self.course.host_lost(&name, &why, &running, Instant::now());
            }
        }
    }

    fn interrupt(&mut self, signal: i32) -> Option<Action> {
        let action = self.course.interrupted(signal, Instant::now());
        if self.course.cause() == Cause::Interrupted(signal) && action == Some(Action::Terminate) {
            self.phase_log
                .announce(messages::interrupted(signal, self.course.running()));
        }
        action
    }

    /// Does it; false if there is nothing more to wait for.
    fn act(&self, action: Action) -> bool {
        match action {
            Action::Terminate => {
                self.explain();
                self.signal_everything(Signal::TERM, Urgency::Ask);
            }
            Action::Kill => self.signal_everything(Signal::KILL, Urgency::Kill),
            Action::GiveUp => {
                let left = tree::descendants(getpid(), &self.not_ours());
                let pids: Vec<i32> = left.iter().map(|entry| entry.pid).collect();
                self.phase_log.announce(messages::given_up(&pids));
            }
        }
        action != Action::GiveUp
    }

    /// Says why the others have to go.
    fn explain(&self) {
        let others = self.course.running();
        if others == 0 {
            return;
        }
        match self.course.cause() {
            Cause::Failure(rank, outcome) => {
                let placement = self.placement(rank);
                self.phase_log
                    .announce(messages::ending_others(placement, outcome, others));
            }
            Cause::HostLost => {
                if let Some((host, why)) = self.course.lost_host() {
                    self.phase_log
                        .announce(messages::ending_after_loss(host, why));
                }
            }
            _ => {}
        }
    }

    fn not_ours(&self) -> HashSet<i32> {
        self.fleet
            .as_ref()
            .map(Fleet::processes)
            .unwrap_or_default()
    }

    fn signal_everything(&self, signal: Signal, urgency: Urgency) {
        self.local_ranks.signal_everything(signal, &self.not_ours());
        if let Some(fleet) = &self.fleet {
            fleet.end(urgency);
        }
    }
}

async fn next_news(fleet: &mut Option<Fleet>) -> (usize, HostNews) {
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
