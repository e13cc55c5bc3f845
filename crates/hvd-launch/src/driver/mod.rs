//! The driver: the forked process that owns the job. It prepares the hosts, starts the ranks, runs
//! the job to its end and reports. The phases of the start share one budget; afterwards only the
//! job itself takes time.

pub(crate) mod agent_port;
pub(crate) mod findings;
pub(crate) mod fleet;
mod function;
mod job;
mod lifecycle;
mod phase_log;
mod prepare_hosts;
pub(crate) mod start_agent;
mod survey;

pub(crate) use findings::{HostAnswer, HostFinding, Severity};
pub(crate) use fleet::{ConnectedAgents, Fleet, Greeting};
pub(crate) use function::{Results, first_with_error, store_function};
pub(crate) use lifecycle::EndCause;
pub(crate) use phase_log::{PhaseLog, StartClock};
pub(crate) use prepare_hosts::{HostPreparation, JobHost, site_numbers};
pub(crate) use survey::{Site, SurveyResult, Thoroughness, survey};

use std::{net::Ipv4Addr, path::Path, time::Duration};

use hvd_rendezvous::{JobKey, Server};
use hvd_types::{Placement, Rank};
use tokio::{
    sync::mpsc,
    time::{timeout, timeout_at},
};

use self::job::{JobRanks, OutputStreams, RunningJob};
use crate::{
    debug::{DebugEndpoint, Roster},
    error::{Error, Result},
    messages,
    output::{ConsoleThread, OutputFiles, Written},
    process::{
        Interrupts, KeyFile, LocalRanks, RankCommand, RankTask, Reaper, StoreLocation, environment,
    },
    protocol::Secret,
    spec::JobSpec,
};

/// How long an interrupted launcher still waits for its console.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the job and returns its exit status.
pub(crate) async fn run(
    spec: &JobSpec,
    interrupts: &mut Interrupts,
    key_file: &Path,
) -> Result<i32> {
    let clock = StartClock::new(spec.start_timeout);
    let results = spec.function.results.map(Results::open).transpose()?;
    let files = match &spec.output.directory {
        Some(directory) => OutputFiles::create(directory, spec.placements.len())?,
        None => OutputFiles::default(),
    };
    let console_thread = ConsoleThread::start(files)?;
    let started = tokio::select! {
        started = start(spec, clock, &console_thread, key_file) => started.map_err(StartFailure::Failed),
        signal = interrupts.next() => Err(StartFailure::Interrupted(signal)),
    };
    let StartedJob {
        mut job,
        server,
        key_file: _key_file,
    } = match started {
        Ok(started) => started,
        Err(stop) => {
            let _ = timeout(FLUSH_TIMEOUT, console_thread.finish()).await;
            return stop.into_result();
        }
    };
    let debug_endpoint = DebugEndpoint::open(spec, job.roster(), server.store());
    job.run(interrupts, &console_thread, &server).await;
    drop(debug_endpoint);
    let cause = job.cause();
    let report = job.report(console_thread, results, &server);
    if matches!(cause, EndCause::Interrupted(_) | EndCause::ReaderGone) {
        let _ = timeout(FLUSH_TIMEOUT, report).await;
        return Ok(cause.status());
    }
    tokio::select! {
        written = report => Ok(match written? {
            Written::Complete => cause.status(),
            Written::Incomplete => cause.status().max(1),
        }),
        signal = interrupts.next() => Ok(EndCause::Interrupted(signal).status()),
    }
}

/// A job whose workers run, and where they meet.
struct StartedJob {
    job: RunningJob,
    server: Server,
    key_file: KeyFile,
}

/// Why a job did not start.
enum StartFailure {
    Failed(Error),
    Interrupted(i32),
}

impl StartFailure {
    fn into_result(self) -> Result<i32> {
        match self {
            Self::Failed(error) => Err(error),
            Self::Interrupted(signal) => Ok(EndCause::Interrupted(signal).status()),
        }
    }
}

async fn start(
    spec: &JobSpec,
    mut clock: StartClock,
    console_thread: &ConsoleThread,
    key_file: &Path,
) -> Result<StartedJob> {
    let phase_log = PhaseLog::new(console_thread.sender().clone(), spec.verbosity);
    if let Some(origin) = &spec.remote.allocation {
        phase_log.verbose(|| messages::allocated(origin, spec.remote.starter.program()));
    }
    for placement in &spec.placements {
        phase_log.verbose(|| messages::planned(placement));
    }
    phase_log.finish_phase(&mut clock, "files")?;
    let (key, secret) = make_key(spec)?;
    let key_file = KeyFile::create(key_file, &key)?;
    let server = serve(spec, &key, &phase_log, &mut clock).await?;
    let reaper = Reaper::start()?;
    let preparation = HostPreparation {
        spec,
        key: &key,
        secret,
        store: Some(server.address()),
        reaper: &reaper,
        phase_log: &phase_log,
    };
    let prepared = preparation.prepare(&mut clock).await;
    phase_log.clear_progress();
    let mut hosts = prepared?;
    let local = LocalStart {
        spec,
        reaper: &reaper,
        store_location: StoreLocation {
            address: server.address(),
            key_file: key_file.path(),
        },
    };
    let mut streams = OutputStreams::new(console_thread.sender().clone(), spec.output.stamp);
    let (sender, ends) = mpsc::unbounded_channel();
    let local_ranks = local.start(&hosts.local, &hosts.variables, &sender, &mut streams)?;
    let mut started: Vec<(Rank, i32)> = local_ranks.pids().collect();
    if let Some(fleet) = &mut hosts.fleet {
        started.extend(start_fleet(fleet, &clock).await?);
    }
    let roster = Roster::default();
    for (rank, pid) in started {
        phase_log.verbose(|| messages::started(rank, pid));
        roster.started(&spec.placements[rank.index()], pid);
    }
    phase_log.finish_phase(&mut clock, "spawn")?;
    let ranks = JobRanks {
        placements: spec.placements.clone(),
        local_ranks,
        fleet: hosts.fleet,
        reaper,
        ends,
        roster,
    };
    Ok(StartedJob {
        job: RunningJob::new(ranks, streams, phase_log),
        server,
        key_file,
    })
}

/// The job's key, and what agents are sent of it.
pub(crate) fn make_key(spec: &JobSpec) -> Result<(JobKey, Secret)> {
    let key = JobKey::generate()?;
    let Some(agents) = &spec.remote.agents else {
        let secret = Secret::Key(key.to_hex());
        return Ok((key, secret));
    };
    let nonce = key.to_hex().into_bytes();
    let key = agents.token.key().derive(&nonce);
    Ok((key, Secret::Nonce(nonce)))
}

async fn start_fleet(fleet: &mut Fleet, clock: &StartClock) -> Result<Vec<(Rank, i32)>> {
    let started = timeout_at(clock.deadline().into(), fleet.start_ranks()).await;
    started.map_err(|_| clock.overrun("spawn"))?
}

/// The ranks of this host.
struct LocalStart<'a> {
    spec: &'a JobSpec,
    reaper: &'a Reaper,
    store_location: StoreLocation<'a>,
}

impl LocalStart<'_> {
    /// Starts them, and the forwarding of their output.
    fn start(
        &self,
        placements: &[Placement],
        variables: &[(String, String)],
        ends: &mpsc::UnboundedSender<crate::process::RankEnd>,
        streams: &mut OutputStreams,
    ) -> Result<LocalRanks> {
        let JobSpec {
            inherited,
            exports,
            command,
            directory,
            container,
            ..
        } = self.spec;
        let exports: Vec<(String, String)> = exports.iter().chain(variables).cloned().collect();
        let task = |placement: &Placement| RankTask {
            rank: placement.rank,
            environment: environment(placement, inherited, &exports, self.store_location),
        };
        let tasks: Vec<RankTask> = placements.iter().map(task).collect();
        let command = RankCommand {
            command,
            directory,
            container: container.as_ref(),
        };
        let (local_ranks, outputs) = LocalRanks::start(&command, &tasks, self.reaper, ends)?;
        for output in outputs {
            streams.add_pipe(output)?;
        }
        Ok(local_ranks)
    }
}

/// Starts the key-value store, with the function in it if there is one.
async fn serve(
    spec: &JobSpec,
    key: &JobKey,
    phase_log: &PhaseLog,
    clock: &mut StartClock,
) -> Result<Server> {
    let server = Server::start((Ipv4Addr::LOCALHOST, 0), key)?;
    phase_log.finish_phase(clock, "rendezvous")?;
    if spec.function.input {
        let stored = timeout_at(clock.deadline().into(), store_function(&server)).await;
        stored.map_err(|_| clock.overrun("function"))??;
        phase_log.finish_phase(clock, "function")?;
    }
    Ok(server)
}
