//! The running job: waits for ends of processes, signals and deadlines, and does what `course.rs`
//! says about them. Runs on one thread, and nothing in its loop waits for the console.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use hvd_rendezvous::{Server, blame};
use hvd_types::{Placement, Rank};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, wait};
use tokio::{sync::watch, task::JoinSet, time::sleep_until};

use super::{
    course::{Action, Cause, Course, Outcome},
    forward::Forwarder,
    function::Results,
    interrupts::Interrupts,
    output::Stream,
    sink::{Sink, Written},
    start::Narrator,
    tree,
    worker::{self, Worker},
};
use crate::{
    JobSpec, Result, messages,
    plan::{Meeting, environment},
};

/// The running job.
pub(super) struct Job {
    workers: Vec<Worker>,
    course: Course,
    narrator: Narrator,
    began: Instant,
    all_gone: watch::Sender<bool>,
}

/// The streams on their way; each returns its last lines.
pub(super) type Forwarders = JoinSet<(Rank, Vec<String>)>;

impl Job {
    /// Starts every worker and the forwarding of its output.
    pub(super) fn start(
        spec: &JobSpec,
        meeting: Meeting<'_>,
        sink: &Sink,
        narrator: Narrator,
    ) -> Result<(Self, Forwarders)> {
        let (all_gone, gone) = watch::channel(false);
        let (mut workers, mut forwarders) = (Vec::new(), JoinSet::new());
        let open_files = worker::raise_open_files();
        for placement in &spec.placements {
            let variables = environment(placement, &spec.inherited, &spec.exports, meeting);
            let started = worker::start(&spec.command, placement, &variables, open_files)?;
            let rank = placement.rank;
            narrator.tell(|| messages::started(rank, started.worker.pid.as_raw_pid()));
            workers.push(started.worker);
            for (stream, pipe) in Stream::BOTH
                .into_iter()
                .zip([started.stdout, started.stderr])
            {
                let voice = sink.voice().clone();
                let forwarder = Forwarder::new(rank, stream, pipe, voice, spec.output.stamp)?;
                let gone = gone.clone();
                forwarders.spawn(async move { (rank, forwarder.run(gone).await) });
            }
        }
        let course = Course::new(workers.len());
        Ok((
            Self {
                workers,
                course,
                narrator,
                began: Instant::now(),
                all_gone,
            },
            forwarders,
        ))
    }

    /// Why the job is ending, or has ended.
    pub(super) fn cause(&self) -> Cause {
        self.course.cause()
    }

    fn placement(&self, rank: Rank) -> &Placement {
        &self.workers[rank.index()].placement
    }

    /// Everything after the last process is gone: the rest of the output, the report, the results.
    pub(super) async fn last_words(
        self,
        mut forwarders: Forwarders,
        sink: Sink,
        results: Option<Results>,
        server: &Server,
    ) -> Result<Written> {
        let mut tails: HashMap<Rank, Vec<String>> = HashMap::new();
        while let Some(ended) = forwarders.join_next().await {
            if let Ok((rank, tail)) = ended {
                tails.entry(rank).or_default().extend(tail);
            }
        }
        let mut delivered = Ok(());
        match (self.course.cause(), results) {
            (Cause::Failure(rank, outcome), _) => {
                let tail = tails.remove(&rank).unwrap_or_default();
                let blamed = self.course.blamed().map(|rank| self.placement(rank));
                let failed = self.placement(rank);
                let report = messages::failure_report(failed, outcome, blamed, &tail);
                sink.voice().report(report).await;
            }
            (Cause::Success, Some(results)) => {
                delivered = results.write(server, self.workers.len()).await;
            }
            _ => {}
        }
        // With it goes its voice, the last one besides the sink's own.
        drop(self);
        let written = sink.finish().await;
        delivered.map(|()| written)
    }

    /// Returns when no process of the job is left, or the last deadline has passed.
    pub(super) async fn take_its_course(
        &mut self,
        interrupts: &mut Interrupts,
        sink: &Sink,
        server: &Server,
    ) {
        let Interrupts {
            arrived,
            child_ended,
        } = interrupts;
        let mut reader_gone = false;
        loop {
            let deadline = self.course.deadline();
            let action = tokio::select! {
                _ = child_ended.recv() => {
                    if self.reap() {
                        break;
                    }
                    self.course.is_killing().then_some(Action::Kill)
                }
                Some(signal) = arrived.recv() => self.interrupt(signal),
                () = sink.reader_gone(), if !reader_gone => {
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
        self.all_gone.send_replace(true);
    }

    /// Reads the notes that failed ranks left about whose fault it was.
    fn hear_blame(&mut self, server: &Server) {
        let note = |rank| server.get(&blame::key(rank));
        self.course
            .follow_blame(|rank| blame::culprit(&note(rank)?));
    }

    /// Takes note of every process that has ended; true if no process of the job is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note_end(pid, status),
                Ok(None) => return false,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn note_end(&mut self, pid: Pid, status: WaitStatus) {
        // Others are orphans that were adopted; they end without a word.
        let ours = |worker: &&mut Worker| worker.pid == pid && !worker.ended;
        let Some(worker) = self.workers.iter_mut().find(ours) else {
            return;
        };
        let outcome = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Outcome::Exited(code),
            (None, Some(signal)) => Outcome::Killed(signal),
            (None, None) => return,
        };
        worker.ended = true;
        let rank = worker.placement.rank;
        self.course.worker_ended(rank, outcome, Instant::now());
        self.narrator
            .tell(|| messages::ended(rank, outcome, self.began.elapsed()));
    }

    fn interrupt(&mut self, signal: i32) -> Option<Action> {
        let action = self.course.interrupted(signal, Instant::now());
        if self.course.cause() == Cause::Interrupted(signal) && action == Some(Action::Terminate) {
            self.narrator
                .announce(messages::interrupted(signal, self.course.running()));
        }
        action
    }

    /// Does it; false if there is nothing more to wait for.
    fn act(&self, action: Action) -> bool {
        match action {
            Action::Terminate => {
                self.explain();
                self.signal_everything(Signal::TERM);
            }
            Action::Kill => self.signal_everything(Signal::KILL),
            Action::GiveUp => {
                let left = tree::descendants(getpid(), &HashSet::new());
                let pids: Vec<i32> = left.iter().map(|entry| entry.pid).collect();
                self.narrator.announce(messages::given_up(&pids));
            }
        }
        action != Action::GiveUp
    }

    /// Says why the others have to go.
    fn explain(&self) {
        if let Cause::Failure(rank, outcome) = self.course.cause()
            && self.course.running() > 0
        {
            let placement = self.placement(rank);
            let others = self.course.running();
            self.narrator
                .announce(messages::ending_others(placement, outcome, others));
        }
    }

    /// Whole groups at once, so that nobody slips away by forking; then whoever left its group.
    /// Nobody gets the signal twice: some programs take a second SIGTERM for impatience.
    fn signal_everything(&self, signal: Signal) {
        let living = || self.workers.iter().filter(|worker| !worker.ended);
        let groups: HashSet<i32> = living().map(|worker| worker.pid.as_raw_pid()).collect();
        let everyone = tree::descendants(getpid(), &HashSet::new());
        living().for_each(|worker| worker.signal_group(signal));
        let others = everyone
            .into_iter()
            .filter(|entry| !groups.contains(&entry.group));
        tree::signal_all(others, signal);
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
