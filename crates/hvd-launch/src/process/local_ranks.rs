//! The ranks that run on this machine, in this process's care: started together, signalled
//! together. Used by the driver for its own host and by the agent for a remote one.

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hvd_types::Rank;
use rustix::process::{Pid, Signal, getpid};
use tokio::sync::mpsc;

use super::{
    exit::ProcessExit,
    reaper::Reaper,
    stream::Stream,
    tree,
    worker::{self, Pipe, RankTask},
};
use crate::error::Result;

/// The reading end of one stream of one rank.
#[derive(Debug)]
pub(crate) struct RankOutput {
    pub(crate) rank: Rank,
    pub(crate) stream: Stream,
    pub(crate) pipe: Pipe,
}

/// A rank has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankEnd {
    pub(crate) rank: Rank,
    pub(crate) outcome: ProcessExit,
}

/// The ranks on this machine.
#[derive(Debug, Default)]
pub(crate) struct LocalRanks {
    processes: Vec<RankProcess>,
}

#[derive(Debug)]
struct RankProcess {
    rank: Rank,
    pid: Pid,
    /// Set as soon as it was reaped; its number may then belong to another process.
    ended: Arc<AtomicBool>,
}

impl RankProcess {
    fn is_running(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }
}

impl LocalRanks {
    /// Starts every rank, in `directory` if that is given; their ends are sent to `ends`.
    pub(crate) fn start(
        command: &[String],
        directory: Option<&Path>,
        tasks: &[RankTask],
        reaper: &Reaper,
        ends: &mpsc::UnboundedSender<RankEnd>,
    ) -> Result<(Self, Vec<RankOutput>)> {
        let open_files = worker::prepare_open_files(tasks.len())?;
        let (mut local_ranks, mut outputs) = (Self::default(), Vec::new());
        for task in tasks {
            let rank = task.rank;
            let started = worker::start(command, directory, task, open_files)?;
            let ended = Arc::new(AtomicBool::new(false));
            let (flag, ends) = (Arc::clone(&ended), ends.clone());
            reaper.watch(started.pid, move |outcome| {
                flag.store(true, Ordering::Relaxed);
                // The receiver is gone once the job was given up.
                let _ = ends.send(RankEnd { rank, outcome });
            });
            local_ranks.processes.push(RankProcess {
                rank,
                pid: started.pid,
                ended,
            });
            let pipes = [started.stdout, started.stderr];
            outputs.extend(
                Stream::BOTH
                    .into_iter()
                    .zip(pipes)
                    .map(|(stream, pipe)| RankOutput { rank, stream, pipe }),
            );
        }
        Ok((local_ranks, outputs))
    }

    /// Rank and process number of each.
    pub(crate) fn pids(&self) -> impl Iterator<Item = (Rank, i32)> {
        self.processes
            .iter()
            .map(|process| (process.rank, process.pid.as_raw_pid()))
    }

    /// Whole groups at once, so that no process escapes by forking; then those that left their
    /// group, but for `spared` and what is below these. No process gets the signal twice: some
    /// programs take a second SIGTERM for impatience.
    pub(crate) fn signal_everything(&self, signal: Signal, spared: &HashSet<i32>) {
        let running = || self.processes.iter().filter(|process| process.is_running());
        let groups: HashSet<i32> = running().map(|process| process.pid.as_raw_pid()).collect();
        let processes = tree::descendants(getpid(), spared);
        for process in running() {
            worker::signal_group(process.pid, signal);
        }
        let others = processes
            .into_iter()
            .filter(|entry| !groups.contains(&entry.group));
        tree::signal_all(others, signal);
    }
}
