//! The ranks that run on this machine, in this process's care: started together, signalled
//! together. Used by the driver for its own host and by the agent for a remote one.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hvd_config::name;
use hvd_types::Rank;
use rustix::process::{Pid, Rlimit, Signal, getpid};
use tokio::sync::mpsc;

use super::{
    container::{self, BareRank, ContainerHost, ContainerOptions},
    exit::ProcessExit,
    reaper::Reaper,
    stream::Stream,
    tree,
    worker::{self, Pipe, RankTask, Started, WorkerStdin},
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

/// What every rank runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankCommand<'a> {
    pub(crate) command: &'a [String],
    pub(crate) directory: &'a Path,
    pub(crate) container: Option<&'a ContainerOptions>,
}

impl RankCommand<'_> {
    /// What this machine has for containers, if the ranks run in one.
    fn look_at_host(&self, tasks: &[RankTask]) -> Result<Option<ContainerHost>> {
        let Some((options, task)) = self.container.zip(tasks.first()) else {
            return Ok(None);
        };
        container::check_image(options)?;
        let path = task.environment.get(OsStr::new("PATH"));
        let path = path.map_or(OsStr::new("/usr/bin:/bin"), |path| path.as_os_str());
        ContainerHost::look(options.runtime, path).map(Some)
    }

    /// Starts one rank.
    fn start(
        &self,
        host: Option<&ContainerHost>,
        task: &RankTask,
        open_files: Rlimit,
    ) -> Result<Started> {
        let (directory, rank) = (Some(self.directory), task.rank);
        let Some((options, host)) = self.container.zip(host) else {
            let stdin = WorkerStdin::Empty;
            return worker::start(self.command, directory, task, stdin, open_files);
        };
        let key_file = task.environment.get(OsStr::new(name::SECRET_KEY_FILE));
        // The number of this process is not enough: other pid namespaces use the same engine.
        let unique = key_file.map(|file| Path::new(file).file_name().unwrap_or_default());
        let unique = unique.unwrap_or_default().to_string_lossy();
        let contained = container::contain(
            options,
            host,
            &BareRank {
                command: self.command,
                directory: self.directory,
                environment: &task.environment,
                key_file: key_file.map(Path::new),
                name: &format!("{unique}-rank-{rank}"),
            },
        );
        let stdin = if contained.holds_stdin {
            WorkerStdin::HeldOpen
        } else {
            WorkerStdin::Empty
        };
        let environment = contained.environment;
        let task = RankTask { rank, environment };
        worker::start(&contained.command, directory, &task, stdin, open_files)
    }
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
    /// Held open: a container ends with it.
    _stdin: Option<OwnedFd>,
    /// Set as soon as it was reaped; its number may then belong to another process.
    ended: Arc<AtomicBool>,
}

impl RankProcess {
    fn is_running(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }
}

impl LocalRanks {
    /// Starts every rank; their ends are sent to `ends`.
    pub(crate) fn start(
        command: &RankCommand<'_>,
        tasks: &[RankTask],
        reaper: &Reaper,
        ends: &mpsc::UnboundedSender<RankEnd>,
    ) -> Result<(Self, Vec<RankOutput>)> {
        let open_files = worker::prepare_open_files(tasks.len())?;
        let host = command.look_at_host(tasks)?;
        let (mut local_ranks, mut outputs) = (Self::default(), Vec::new());
        for task in tasks {
            let rank = task.rank;
            let started = command.start(host.as_ref(), task, open_files)?;
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
                _stdin: started.stdin,
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
