//! Answers `horovodrun debug` in a job that another launcher has started, which has no driver: on a
//! thread of rank 0's process, for as long as this lives. Rank 0's process stands for the job.

use std::{
    ffi::OsString,
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hvd_rendezvous::MemoryStore;
use hvd_types::printable;
use rustix::process::getpid;
use tokio::{runtime, sync::oneshot};

use super::{
    description::JobRank,
    responder::{AskedJob, DebugEndpoint},
    roster::Roster,
    socket_dir,
};

/// How long a start may be held up, so that whoever sees the job can ask it.
const LISTENING_TIMEOUT: Duration = Duration::from_secs(1);

/// The responder of a job without a driver.
#[derive(Debug)]
pub struct DebugThread {
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DebugThread {
    /// Answers from now on. `environment` is the process's, as far as it says where sockets may be;
    /// `store` is the job's own.
    pub fn start(
        environment: &[(OsString, OsString)],
        ranks: Vec<JobRank>,
        store: MemoryStore,
    ) -> Self {
        let job = AskedJob {
            supervisor: getpid().as_raw_pid(),
            command: own_command(),
            directories: socket_dir::directories(environment),
            roster: Roster::of(ranks),
            store,
        };
        let (stop, stopped) = oneshot::channel();
        let (opening, opened) = mpsc::channel();
        let started = thread::Builder::new()
            .name("hvd-debug".to_owned())
            .spawn(move || answer(job, opening, stopped));
        // Ends when the sender is dropped; nothing is sent.
        let _ = opened.recv_timeout(LISTENING_TIMEOUT);
        let warn = |error| tracing::warn!("`horovodrun debug` will not find this job: {error}");
        Self {
            stop: Some(stop),
            thread: started.map_err(warn).ok(),
        }
    }
}

impl Drop for DebugThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Answers until `stopped`; drops `opening` when it listens, or cannot.
fn answer(job: AskedJob, opening: mpsc::Sender<()>, stopped: oneshot::Receiver<()>) {
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::warn!("`horovodrun debug` will not find this job: {error}");
            return;
        }
    };
    runtime.block_on(async move {
        let _endpoint = DebugEndpoint::listen(job);
        drop(opening);
        // Ends when the sender is dropped.
        let _ = stopped.await;
    });
    // A query that is under way would hold the exit of the process up.
    runtime.shutdown_background();
}

/// What this process was started as, in one line.
fn own_command() -> String {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = bytes
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    printable(&words.join(" ")).into_owned()
}
