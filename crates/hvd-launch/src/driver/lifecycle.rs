//! The lifecycle of a job: what happens when, as a pure function of events and the clock. It starts
//! no process and sends no signal; `job.rs` does what it says.
//!
//! ```text
//! Running --a rank fails, or all have ended--> Grace --0.5 s--> Terminating --4 s--> Killing
//!    \---a signal, or the reader of the output is gone----------^   \--second Ctrl-C--^
//! ```
//!
//! * END-1 the first cause decides the exit status; later ones do not change it.
//! * END-2 among ranks that failed before anything was sent to them, one that a signal killed is
//!   preferred over one that exited with a code: the others usually fail because of it.
//! * END-2b the loss of a whole host explains more than ranks that exited with a code about then.
//! * END-2c so does its loss after the others were asked to end, if the cause blames a rank of it.
//! * END-3 a rank that says it failed because of another one is not the cause if that one failed
//!   too.
//! * END-4 from the first failure to the last process less than [`GIVE_UP_AFTER`] passes.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use hvd_types::Rank;

use crate::{messages::BlamedState, process::ProcessExit};

/// How long survivors may take to notice and to raise their own errors. Leftovers of a job that
/// ended well get it too, to clean up (Python's resource tracker removes shared memory then).
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// When SIGKILL follows, counted from the first cause.
pub(crate) const KILL_AFTER: Duration = Duration::from_secs(4);

/// The same where a host was lost: that it is gone may have taken half of the ten seconds in which
/// a job has to be over.
const KILL_AFTER_LOSS: Duration = Duration::from_secs(2);

/// When processes that do not even end by SIGKILL are left to the system.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_millis(4900);

/// What the driver has to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask every process of the job to end.
    Terminate,
    /// End every process of the job.
    Kill,
    /// Stop waiting.
    GiveUp,
}

/// Why the job is ending, or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// Every rank exited with 0.
    Success,
    /// A rank failed.
    Failure(Rank, ProcessExit),
    /// A host with ranks on it is gone, see [`Lifecycle::lost_host`].
    HostLost,
    /// A signal asked for it.
    Interrupted(i32),
    /// The reader of our output has gone.
    ReaderGone,
}

impl EndCause {
    /// The exit status of the launcher.
    pub(crate) fn status(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Failure(_, outcome) => outcome.status(),
            Self::HostLost => 1,
            Self::Interrupted(signal) => 128 + signal,
            // What a shell reports of a program that wrote into a closed pipe.
            Self::ReaderGone => 128 + libc::SIGPIPE,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobPhase {
    Running,
    Grace,
    Terminating,
    Killing,
}

/// The state of one job.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: JobPhase,
    running: usize,
    cause: EndCause,
    /// Ranks that failed before anything was sent to them.
    failures: Vec<(Rank, ProcessExit)>,
    /// Ranks that exited with code 0 before anything was sent to them.
    exited_well: HashSet<Rank>,
    /// Whom the cause blames although that rank has not failed: it may have exited with code 0, or
    /// be stopped or cut off.
    blamed: Option<Rank>,
    /// The first host that was lost, and why.
    lost_host: Option<(String, String)>,
    ending_since: Option<Instant>,
}

impl Lifecycle {
    /// A job whose `ranks` workers all run.
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            phase: JobPhase::Running,
            running: ranks,
            cause: EndCause::Success,
            failures: Vec::new(),
            exited_well: HashSet::new(),
            blamed: None,
            lost_host: None,
            ending_since: None,
        }
    }

    /// Workers that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Why the job is ending.
    pub(crate) fn cause(&self) -> EndCause {
        self.cause
    }

    /// Whom the cause blames although that rank has not failed by itself, and what became of it.
    pub(crate) fn blamed(&self) -> Option<(Rank, BlamedState)> {
        let rank = self.blamed?;
        if self.exited_well.contains(&rank) {
            return Some((rank, BlamedState::ExitedWell));
        }
        Some((rank, BlamedState::Running))
    }

    /// A worker has ended.
    pub(crate) fn worker_ended(&mut self, rank: Rank, outcome: ProcessExit, now: Instant) {
        self.running -= 1;
        if matches!(self.phase, JobPhase::Running | JobPhase::Grace) {
            self.record_own_end(rank, outcome);
        }
        if self.phase == JobPhase::Running && (outcome.is_failure() || self.running == 0) {
            self.begin(JobPhase::Grace, now);
        }
    }

    /// A rank has ended before anything was sent to it.
    fn record_own_end(&mut self, rank: Rank, outcome: ProcessExit) {
        if !outcome.is_failure() {
            self.exited_well.insert(rank);
            return;
        }
        self.failures.push((rank, outcome));
        if self.explains_more(outcome) {
            self.cause = EndCause::Failure(rank, outcome);
        }
    }

    /// A host is gone, and with it `ranks` that still ran.
    pub(crate) fn host_lost(&mut self, host: &str, why: &str, ranks: &HashSet<Rank>, now: Instant) {
        self.running -= ranks.len();
        let explains = match self.phase {
            JobPhase::Running | JobPhase::Grace => !ranks.is_empty(),
            JobPhase::Terminating | JobPhase::Killing => {
                self.blamed.is_some_and(|rank| ranks.contains(&rank))
            }
        };
        let is_consequence = matches!(
            self.cause,
            EndCause::Success | EndCause::Failure(_, ProcessExit::Exited(_))
        );
        if explains && is_consequence {
            self.cause = EndCause::HostLost;
            self.lost_host = Some((host.to_owned(), why.to_owned()));
        }
        if self.phase == JobPhase::Running {
            self.begin(JobPhase::Grace, now);
        }
    }

    /// The host whose loss is the cause, and why it was lost.
    pub(crate) fn lost_host(&self) -> Option<(&str, &str)> {
        let (host, why) = self.lost_host.as_ref()?;
        Some((host, why))
    }

    /// Whether a failure explains more than what is known so far.
    fn explains_more(&self, outcome: ProcessExit) -> bool {
        match self.cause {
            EndCause::Success => true,
            EndCause::Failure(_, ProcessExit::Exited(_)) => {
                matches!(outcome, ProcessExit::Killed(_))
            }
            _ => false,
        }
    }

    /// Follows what failed ranks say about whose fault it was, from the cause known so far to one
    /// that blames no other (END-3). A rank that a signal killed has its own reason.
    pub(crate) fn follow_blame(&mut self, culprit_of: impl Fn(Rank) -> Option<Rank>) {
        for _ in 0..self.failures.len() {
            let EndCause::Failure(rank, ProcessExit::Exited(_)) = self.cause else {
                return;
            };
            let culprit = culprit_of(rank).filter(|&culprit| culprit != rank);
            let failed = |&&(other, _): &&(Rank, ProcessExit)| Some(other) == culprit;
            let Some(&(culprit, outcome)) = self.failures.iter().find(failed) else {
                self.blamed = culprit;
                return;
            };
            self.cause = EndCause::Failure(culprit, outcome);
        }
    }

    /// A signal asks for the end; a second Ctrl-C does not wait any longer.
    pub(crate) fn interrupted(&mut self, signal: i32, now: Instant) -> Option<Action> {
        let again = matches!(self.cause, EndCause::Interrupted(_)) && signal == libc::SIGINT;
        if again && self.phase == JobPhase::Terminating {
            self.phase = JobPhase::Killing;
            return Some(Action::Kill);
        }
        self.end_by(EndCause::Interrupted(signal), now)
    }

    /// The reader of our output has gone.
    pub(crate) fn reader_gone(&mut self, now: Instant) -> Option<Action> {
        self.end_by(EndCause::ReaderGone, now)
    }

    fn end_by(&mut self, cause: EndCause, now: Instant) -> Option<Action> {
        if self.cause == EndCause::Success && self.running > 0 {
            self.cause = cause;
        }
        if !matches!(self.phase, JobPhase::Running | JobPhase::Grace) {
            return None;
        }
        self.begin(JobPhase::Terminating, now);
        Some(Action::Terminate)
    }

    fn begin(&mut self, phase: JobPhase, now: Instant) {
        self.phase = phase;
        self.ending_since.get_or_insert(now);
    }

    /// When [`Self::tick`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeout = match self.phase {
            JobPhase::Running => return None,
            JobPhase::Grace => GRACE,
            JobPhase::Terminating if self.lost_host.is_some() => KILL_AFTER_LOSS,
            JobPhase::Terminating => KILL_AFTER,
            JobPhase::Killing => GIVE_UP_AFTER,
        };
        Some(self.ending_since? + timeout)
    }

    /// The clock says `now`.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        let (next, action) = match self.phase {
            JobPhase::Running | JobPhase::Grace => (JobPhase::Terminating, Action::Terminate),
            JobPhase::Terminating => (JobPhase::Killing, Action::Kill),
            JobPhase::Killing => (JobPhase::Killing, Action::GiveUp),
        };
        self.phase = next;
        Some(action)
    }

    /// Whether SIGKILL has been sent, so that newcomers get it too.
    pub(crate) fn is_killing(&self) -> bool {
        self.phase == JobPhase::Killing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Rank = Rank::new(0);
    const ONE: Rank = Rank::new(1);

    fn at(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_rank_that_ends_well_does_not_end_the_job() {
        let (mut lifecycle, start) = (Lifecycle::new(2), Instant::now());
        lifecycle.worker_ended(ZERO, ProcessExit::Exited(0), start);
        assert_eq!((lifecycle.deadline(), lifecycle.running()), (None, 1));
        lifecycle.worker_ended(ONE, ProcessExit::Exited(0), at(start, 9));
        assert_eq!(lifecycle.cause(), EndCause::Success);
        assert_eq!(
            lifecycle.deadline(),
            Some(at(start, 509)),
            "leftovers get a moment, too"
        );
    }

    #[test]
    fn end_4_survivors_are_asked_then_ended_within_five_seconds() {
        let (mut lifecycle, start) = (Lifecycle::new(3), Instant::now());
        lifecycle.worker_ended(ONE, ProcessExit::Exited(3), start);
        assert_eq!(lifecycle.tick(at(start, 499)), None);
        assert_eq!(lifecycle.tick(at(start, 500)), Some(Action::Terminate));
        assert_eq!(lifecycle.tick(at(start, 3999)), None);
        assert_eq!(lifecycle.tick(at(start, 4000)), Some(Action::Kill));
        assert_eq!(lifecycle.tick(at(start, 4899)), None);
        assert_eq!(lifecycle.tick(at(start, 4900)), Some(Action::GiveUp));
    }

    #[test]
    fn end_2_a_rank_killed_in_the_window_explains_more_than_one_that_exited() {
        let (mut lifecycle, start) = (Lifecycle::new(4), Instant::now());
        lifecycle.worker_ended(ONE, ProcessExit::Exited(1), start);
        lifecycle.worker_ended(ZERO, ProcessExit::Killed(11), at(start, 10));
        lifecycle.worker_ended(Rank::new(2), ProcessExit::Killed(6), at(start, 20));
        assert_eq!(
            lifecycle.cause(),
            EndCause::Failure(ZERO, ProcessExit::Killed(11))
        );
        assert_eq!(ProcessExit::Killed(11).status(), 139);
    }

    #[test]
    fn end_2_what_we_killed_ourselves_explains_nothing() {
        let (mut lifecycle, start) = (Lifecycle::new(2), Instant::now());
        lifecycle.worker_ended(ONE, ProcessExit::Exited(7), start);
        lifecycle.tick(at(start, 500));
        lifecycle.worker_ended(ZERO, ProcessExit::Killed(15), at(start, 510));
        assert_eq!(
            lifecycle.cause(),
            EndCause::Failure(ONE, ProcessExit::Exited(7))
        );
    }

    #[test]
    fn end_2b_a_lost_host_explains_what_its_peers_complain_about() {
        let (mut lifecycle, start) = (Lifecycle::new(4), Instant::now());
        lifecycle.worker_ended(ZERO, ProcessExit::Exited(1), start);
        let lost = HashSet::from([Rank::new(2), Rank::new(3)]);
        lifecycle.host_lost("b", "its agent was killed", &lost, at(start, 10));
        assert_eq!(
            (lifecycle.cause(), lifecycle.running()),
            (EndCause::HostLost, 1)
        );
        assert_eq!(lifecycle.lost_host(), Some(("b", "its agent was killed")));
        assert_eq!(lifecycle.deadline(), Some(at(start, 500)));
        assert_eq!(lifecycle.tick(at(start, 500)), Some(Action::Terminate));
        assert_eq!(lifecycle.deadline(), Some(start + KILL_AFTER_LOSS));
        let mut lifecycle = Lifecycle::new(2);
        lifecycle.worker_ended(ZERO, ProcessExit::Killed(9), start);
        lifecycle.host_lost("b", "silent", &HashSet::from([ONE]), at(start, 10));
        assert_eq!(
            lifecycle.cause(),
            EndCause::Failure(ZERO, ProcessExit::Killed(9))
        );
    }

    #[test]
    fn end_2c_a_loss_that_is_noticed_late_explains_the_rank_that_is_blamed() {
        for (culprit, is_explained) in [(Some(ONE), true), (None, false)] {
            let (mut lifecycle, start) = (Lifecycle::new(2), Instant::now());
            lifecycle.worker_ended(ZERO, ProcessExit::Exited(1), start);
            assert_eq!(lifecycle.tick(at(start, 500)), Some(Action::Terminate));
            lifecycle.follow_blame(|_| culprit);
            lifecycle.host_lost("b", "silent", &HashSet::from([ONE]), at(start, 900));
            assert_eq!(lifecycle.cause() == EndCause::HostLost, is_explained);
            assert_eq!(lifecycle.lost_host().is_some(), is_explained);
        }
    }

    #[test]
    fn a_blamed_rank_that_exited_well_is_told_from_one_that_still_ran() {
        let (mut lifecycle, start) = (Lifecycle::new(3), Instant::now());
        lifecycle.worker_ended(ONE, ProcessExit::Exited(0), start);
        lifecycle.worker_ended(ZERO, ProcessExit::Exited(1), at(start, 5));
        lifecycle.follow_blame(|_| Some(ONE));
        assert_eq!(lifecycle.blamed(), Some((ONE, BlamedState::ExitedWell)));
        let two = Rank::new(2);
        lifecycle.follow_blame(|_| Some(two));
        lifecycle.tick(at(start, 600));
        lifecycle.worker_ended(two, ProcessExit::Exited(0), at(start, 610));
        assert_eq!(lifecycle.blamed(), Some((two, BlamedState::Running)));
    }

    #[test]
    fn end_3_a_consequence_that_ended_first_is_not_the_cause() {
        let (mut lifecycle, start) = (Lifecycle::new(3), Instant::now());
        lifecycle.worker_ended(ZERO, ProcessExit::Exited(1), start);
        lifecycle.follow_blame(|_| Some(ONE));
        assert_eq!(
            lifecycle.cause(),
            EndCause::Failure(ZERO, ProcessExit::Exited(1)),
            "the other one has not failed yet"
        );
        assert_eq!(lifecycle.blamed(), Some((ONE, BlamedState::Running)));
        lifecycle.worker_ended(ONE, ProcessExit::Exited(3), at(start, 40));
        lifecycle.follow_blame(|rank| (rank == ZERO).then_some(ONE));
        assert_eq!(
            lifecycle.cause(),
            EndCause::Failure(ONE, ProcessExit::Exited(3))
        );
        lifecycle.follow_blame(|rank| Some(if rank == ONE { ZERO } else { ONE }));
        assert!(
            matches!(lifecycle.cause(), EndCause::Failure(..)),
            "a circle of blame ends"
        );
    }

    #[test]
    fn a_second_ctrl_c_does_not_wait() {
        let (mut lifecycle, start) = (Lifecycle::new(2), Instant::now());
        assert_eq!(
            lifecycle.interrupted(libc::SIGINT, start),
            Some(Action::Terminate)
        );
        assert_eq!(lifecycle.interrupted(libc::SIGTERM, at(start, 1)), None);
        assert_eq!(
            lifecycle.interrupted(libc::SIGINT, at(start, 2)),
            Some(Action::Kill)
        );
        assert_eq!(lifecycle.interrupted(libc::SIGINT, at(start, 3)), None);
        assert_eq!(lifecycle.cause(), EndCause::Interrupted(libc::SIGINT));
    }

    #[test]
    fn end_1_the_first_cause_wins() {
        let (mut lifecycle, start) = (Lifecycle::new(2), Instant::now());
        lifecycle.worker_ended(ZERO, ProcessExit::Exited(5), start);
        assert_eq!(
            lifecycle.interrupted(libc::SIGINT, at(start, 1)),
            Some(Action::Terminate)
        );
        assert_eq!(lifecycle.reader_gone(at(start, 2)), None);
        assert_eq!(
            lifecycle.cause(),
            EndCause::Failure(ZERO, ProcessExit::Exited(5))
        );
        let mut lifecycle = Lifecycle::new(1);
        assert_eq!(lifecycle.reader_gone(start), Some(Action::Terminate));
        lifecycle.worker_ended(ZERO, ProcessExit::Killed(15), at(start, 1));
        assert_eq!(lifecycle.cause(), EndCause::ReaderGone);
    }
}
