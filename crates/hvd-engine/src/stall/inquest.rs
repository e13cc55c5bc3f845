//! Finding out why ranks are missed, and saying so. Asking takes up to [`PATIENCE`], for which the
//! engine thread has no time: a thread of its own, started with the first stall, asks the missing
//! ranks how they stand, then logs the warning, or reports the failure and wakes the engine.
//!
//! Without anybody to ask (ranks as threads, in tests) everything is said at once.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hvd_transport::{Failure, StatusQuery, Waker};
use hvd_types::Rank;
use hvd_wire::snapshot::RankSnapshot;

use super::account::Heard;
use super::text::{self, MOST_LISTED};
use super::{Finding, StallReport};

/// How long the missing ranks have to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Rank 0's questions about stalled tensors.
#[derive(Debug)]
pub(crate) struct Inquest {
    status_query: Option<StatusQuery>,
    /// Wakes the engine thread when the job has to end.
    waker: Waker,
    failure: Arc<Mutex<Option<Failure>>>,
    /// Whether the job has to end; later reports are dropped.
    condemned: bool,
    clerk: Option<Clerk>,
}

/// The thread, and the way to it.
#[derive(Debug)]
struct Clerk {
    reports: Option<Sender<StallReport>>,
    thread: Option<JoinHandle<()>>,
}

impl Inquest {
    pub(crate) fn new(status_query: Option<StatusQuery>, waker: Waker) -> Self {
        Self {
            status_query,
            waker,
            failure: Arc::default(),
            condemned: false,
            clerk: None,
        }
    }

    /// Whether stalls need not be looked for any more.
    pub(crate) fn is_over(&self) -> bool {
        self.condemned
    }

    /// Takes up what was found. Does not wait.
    pub(crate) fn take_up(&mut self, report: StallReport) {
        if self.condemned || (report.late.is_empty() && report.fatal.is_empty()) {
            return;
        }
        self.condemned = !report.fatal.is_empty();
        match self.clerk() {
            Some(reports) => {
                // It listens for as long as this value lives.
                let _ = reports.send(report);
            }
            None => conclude(&report, None, &self.failure),
        }
    }

    /// Why the job has to end, once that is known.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.condemned.then(|| lock(&self.failure).take()).flatten()
    }

    /// The way to the thread, which is started if need be; none if there is nobody to ask.
    fn clerk(&mut self) -> Option<&Sender<StallReport>> {
        let status_query = self.status_query.as_ref()?;
        if self.clerk.is_none() {
            let (reports, inbox) = mpsc::channel();
            let (status_query, waker) = (status_query.clone(), self.waker.clone());
            let failure = Arc::clone(&self.failure);
            let thread = thread::Builder::new()
                .name("hvd-stall".to_owned())
                .spawn(move || work(&inbox, &status_query, &waker, &failure))
                .ok()?;
            self.clerk = Some(Clerk {
                reports: Some(reports),
                thread: Some(thread),
            });
        }
        self.clerk.as_ref()?.reports.as_ref()
    }
}

impl Drop for Clerk {
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
        let heard = ask(status_query, &report);
        conclude(&report, Some(&heard), failure);
        waker.wake();
    }
}

/// Asks the ranks that are going to be named.
fn ask(status_query: &StatusQuery, report: &StallReport) -> Heard {
    let named = [&report.late, &report.fatal]
        .into_iter()
        .filter_map(|findings| text::oldest(findings))
        .flat_map(|finding| finding.missing.iter().take(MOST_LISTED));
    let mut ranks: Vec<Rank> = named.map(|place| place.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let answers = status_query.ask(&ranks, PATIENCE).into_iter();
    let snapshots = answers
        .filter_map(|(rank, said)| Some((rank, RankSnapshot::decode(&said).ok()?)))
        .collect();
    Heard {
        snapshots,
        limit: PATIENCE,
    }
}

/// Says what is to be said.
fn conclude(report: &StallReport, heard: Option<&Heard>, outcome: &Mutex<Option<Failure>>) {
    if !report.late.is_empty() {
        let warning = text::warning(&report.late, report.limits.warning, heard);
        tracing::warn!("{warning}");
    }
    if let Some(failure) = fatal_failure(&report.fatal, report.limits.shutdown, heard) {
        tracing::error!("{failure}");
        *lock(outcome) = Some(failure);
    }
}

fn fatal_failure(
    fatal: &[Finding],
    shutdown: Option<Duration>,
    heard: Option<&Heard>,
) -> Option<Failure> {
    let culprit = fatal.iter().find_map(|finding| finding.missing.first())?;
    Some(Failure {
        rank: culprit.rank,
        host: culprit.host.to_string(),
        reason: text::failure(fatal, shutdown.unwrap_or_default(), heard),
    })
}

fn lock(failure: &Mutex<Option<Failure>>) -> std::sync::MutexGuard<'_, Option<Failure>> {
    failure.lock().unwrap_or_else(PoisonError::into_inner)
}
