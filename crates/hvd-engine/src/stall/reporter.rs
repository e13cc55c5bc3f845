//! Reports stalled tensors. Asking the missing ranks for their state takes up to
//! [`ANSWER_TIMEOUT`], for which the engine thread has no time: a thread of its own, started with
//! the first stall, asks them, then logs the warning, or stores the failure and wakes the engine.
//!
//! Without a way to ask (ranks as threads, in tests) the report is written at once.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hvd_transport::{Failure, StatusQuery, Waker};
use hvd_types::Rank;
use hvd_wire::snapshot::RankSnapshot;

use super::describe::StallAnswers;
use super::text::{self, MOST_LISTED};
use super::{StallReport, StalledTensor};

/// How long the missing ranks have to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Reports rank 0's findings about stalled tensors.
#[derive(Debug)]
pub(crate) struct StallReporter {
    status_query: Option<StatusQuery>,
    /// Wakes the engine thread when the job has to end.
    waker: Waker,
    failure: Arc<Mutex<Option<Failure>>>,
    /// Whether the job has to end; later reports are dropped.
    is_fatal: bool,
    thread: Option<ReporterThread>,
}

/// The thread, and the channel to it.
#[derive(Debug)]
struct ReporterThread {
    reports: Option<Sender<StallReport>>,
    thread: Option<JoinHandle<()>>,
}

impl StallReporter {
    pub(crate) fn new(status_query: Option<StatusQuery>, waker: Waker) -> Self {
        Self {
            status_query,
            waker,
            failure: Arc::default(),
            is_fatal: false,
            thread: None,
        }
    }

    /// Whether stalls need not be looked for any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_fatal
    }

    /// Takes up what was found. Does not wait.
    pub(crate) fn take_up(&mut self, report: StallReport) {
        if self.is_fatal || (report.late.is_empty() && report.fatal.is_empty()) {
            return;
        }
        self.is_fatal = !report.fatal.is_empty();
        match self.thread() {
            Some(reports) => {
                // It listens for as long as this value lives.
                let _ = reports.send(report);
            }
            None => conclude(&report, None, &self.failure),
        }
    }

    /// Why the job has to end, once that is known.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.is_fatal.then(|| lock(&self.failure).take()).flatten()
    }

    /// The channel to the thread, which is started if need be; none without a way to ask ranks.
    fn thread(&mut self) -> Option<&Sender<StallReport>> {
        let status_query = self.status_query.as_ref()?;
        if self.thread.is_none() {
            let (reports, inbox) = mpsc::channel();
            let (status_query, waker) = (status_query.clone(), self.waker.clone());
            let failure = Arc::clone(&self.failure);
            let thread = thread::Builder::new()
                .name("hvd-stall".to_owned())
                .spawn(move || work(&inbox, &status_query, &waker, &failure))
                .ok()?;
            self.thread = Some(ReporterThread {
                reports: Some(reports),
                thread: Some(thread),
            });
        }
        self.thread.as_ref()?.reports.as_ref()
    }
}

impl Drop for ReporterThread {
    fn drop(&mut self) {
        drop(self.reports.take());
        if let Some(thread) = self.thread.take() {
            // Its waits are bounded, and over as soon as the lifelines are closed.
            let _ = thread.join();
        }
    }
}

fn work(
    inbox: &Receiver<StallReport>,
    status_query: &StatusQuery,
    waker: &Waker,
    failure: &Mutex<Option<Failure>>,
) {
    while let Ok(report) = inbox.recv() {
        let answers = ask(status_query, &report);
        conclude(&report, Some(&answers), failure);
        waker.wake();
    }
}

/// Asks the ranks that are going to be named.
fn ask(status_query: &StatusQuery, report: &StallReport) -> StallAnswers {
    let named = [&report.late, &report.fatal]
        .into_iter()
        .filter_map(|stalled| text::oldest(stalled))
        .flat_map(|stalled_tensor| stalled_tensor.missing.iter().take(MOST_LISTED));
    let mut ranks: Vec<Rank> = named.map(|place| place.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let answers = status_query.ask(&ranks, ANSWER_TIMEOUT).into_iter();
    let snapshots = answers
        .filter_map(|(rank, answer)| Some((rank, RankSnapshot::decode(&answer).ok()?)))
        .collect();
    StallAnswers {
        snapshots,
        limit: ANSWER_TIMEOUT,
    }
}

/// Logs the warning, or stores the failure.
fn conclude(
    report: &StallReport,
    answers: Option<&StallAnswers>,
    outcome: &Mutex<Option<Failure>>,
) {
    if !report.late.is_empty() {
        let warning = text::warning(&report.late, report.limits.warning, answers);
        tracing::warn!("{warning}");
    }
    if let Some(failure) = fatal_failure(&report.fatal, report.limits.shutdown, answers) {
        tracing::error!("{failure}");
        *lock(outcome) = Some(failure);
    }
}

fn fatal_failure(
    fatal: &[StalledTensor],
    shutdown: Option<Duration>,
    answers: Option<&StallAnswers>,
) -> Option<Failure> {
    let culprit = fatal
        .iter()
        .find_map(|stalled_tensor| stalled_tensor.missing.first())?;
    Some(Failure {
        rank: culprit.rank,
        host: culprit.host.to_string(),
        reason: text::failure(fatal, shutdown.unwrap_or_default(), answers),
    })
}

fn lock(failure: &Mutex<Option<Failure>>) -> std::sync::MutexGuard<'_, Option<Failure>> {
    failure.lock().unwrap_or_else(PoisonError::into_inner)
}
