//! Collects child processes that have ended and calls their callbacks. The only place that
//! waits for children while a job runs, because orphans that were adopted have to be reaped too,
//! and waiting for any child would take a status away from a wait for one.

use std::{
    collections::HashMap,
    io,
    process::{Child, Command},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, wait, waitid},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use super::exit::ProcessExit;
use crate::error::{Error, Result};

type Callback = Box<dyn FnOnce(ProcessExit) + Send>;

/// The children of this process.
#[derive(Clone)]
pub(crate) struct Reaper {
    watched: Arc<Mutex<HashMap<i32, Callback>>>,
    rounds: watch::Sender<u64>,
}

impl Reaper {
    /// Reaps from now on, whenever a child ends.
    pub(crate) fn start() -> Result<Self> {
        let failed = Error::system("listen for the ends of processes");
        let child_ended = signal(SignalKind::child()).map_err(failed)?;
        let reaper = Self {
            watched: Arc::default(),
            rounds: watch::Sender::new(0),
        };
        tokio::spawn(reaper.clone().run(child_ended));
        Ok(reaper)
    }

    async fn run(self, mut child_ended: Signal) {
        while child_ended.recv().await.is_some() {
            self.collect();
            self.rounds.send_modify(|rounds| *rounds += 1);
        }
    }

    /// Calls `callback` with how the child `pid` ends. To be called before anything is awaited
    /// after the child was started.
    pub(crate) fn watch(&self, pid: Pid, callback: impl FnOnce(ProcessExit) + Send + 'static) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.insert(pid.as_raw_pid(), Box::new(callback));
    }

    /// Starts a child from any thread and calls `callback` with how it ends. The child must not be
    /// waited for anywhere else.
    pub(crate) fn spawn(
        &self,
        command: &mut Command,
        callback: impl FnOnce(ProcessExit) + Send + 'static,
    ) -> io::Result<Child> {
        // Held until the child is known, so that its end is not taken for an orphan's.
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        if let Ok(pid) = i32::try_from(child.id()) {
            watched.insert(pid, Box::new(callback));
        }
        Ok(child)
    }

    /// Changes whenever children were reaped.
    pub(crate) fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    fn collect(&self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.notify(pid, status),
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn notify(&self, pid: Pid, status: WaitStatus) {
        let outcome = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => ProcessExit::Exited(code),
            (None, Some(signal)) => ProcessExit::Killed(signal),
            (None, None) => return,
        };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Others are orphans that were adopted; they end without a word.
        if let Some(callback) = watched.remove(&pid.as_raw_pid()) {
            drop(watched);
            callback(outcome);
        }
    }
}

/// Whether this process has children, zombies included.
pub(crate) fn has_children() -> bool {
    let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, looking).is_ok()
}
