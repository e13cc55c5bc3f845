//! The one engine of this process: joined by `init`, left by `shutdown`, forgotten after `fork`.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread;

use hvd_config::{Environment, JoinAverageChoice, TimelineTarget, WorkerConfig};
use hvd_engine::{
    Core, Engine, EngineOptions, ExitReport, GroupFusion, Hierarchy, JoinDivisor, LastHandles,
    StallOptions,
};
use hvd_transport::{
    Abort, FabricSource, Failure, InitAttempt, Lifeline, Membership, Mesh, ObjectSeal, StatusQuery,
    StoreError, Transport,
};
use hvd_types::{Placement, Rank};
use pyo3::prelude::*;

use crate::autotune;
use crate::bootstrap::{self, JobSource};
use crate::debug_endpoint::RankDebugEndpoint;
use crate::error::{Error, Result};
use crate::fork::close_inherited;
use crate::handles::SIGNAL_CHECK;
use crate::{mpi, stack};

/// An initialized horovod.
pub(crate) struct WorkerSession {
    pub(crate) engine: Engine,
    pub(crate) placement: Placement,
    pub(crate) dynamic_process_sets: bool,
    /// Whether MPI was chosen for data or as the launcher.
    pub(crate) mpi_enabled: bool,
    /// Whether `HOROVOD_TIMELINE` was set, to a file or to `DYNAMIC`.
    has_timeline: bool,
    abort: Abort,
    /// The handle of a join that is under way, so that an interrupted one can be resumed.
    pub(crate) joining: Mutex<Option<u64>>,
    /// Sockets that a forked child must not keep open; empty once they are closed.
    lifeline_sockets: Arc<Mutex<Vec<RawFd>>>,
    /// What signs and checks objects that ranks unpickle.
    pub(crate) objects: ObjectSeal,
}

static SESSION: RwLock<Option<Arc<WorkerSession>>> = RwLock::new(None);

/// The handles of the session before: other threads may still wait for some. With the lock of
/// [`SESSION`] for every change, so that a handle is always in one of the two.
static LAST_HANDLES: RwLock<Option<LastHandles>> = RwLock::new(None);

/// Held while joining or leaving, so that two threads do not do both at once.
static CHANGING: Mutex<()> = Mutex::new(());

/// The session, for an operation of the given name.
pub(crate) fn current() -> Result<Arc<WorkerSession>> {
    with_current(Arc::clone)
}

/// What a function makes of the session, for calls so short that even counting its owners shows.
/// The function must neither wait nor call Python, whose garbage collector may call back here.
pub(crate) fn with_current<T>(use_it: impl FnOnce(&Arc<WorkerSession>) -> T) -> Result<T> {
    let session = SESSION.read().unwrap_or_else(PoisonError::into_inner);
    session
        .as_ref()
        .map(use_it)
        .ok_or(Error::Engine(hvd_engine::Error::NotInitialized))
}

/// What a function makes of the handles of the last session, which is shut down.
pub(crate) fn with_last_handles<T>(use_them: impl FnOnce(&LastHandles) -> T) -> Option<T> {
    let handles = LAST_HANDLES.read().unwrap_or_else(PoisonError::into_inner);
    handles.as_ref().map(use_them)
}

/// Takes the session away from all other threads, and leaves them its handles.
fn end_current() -> Option<Arc<WorkerSession>> {
    let mut current = SESSION.write().unwrap_or_else(PoisonError::into_inner);
    let session = current.take()?;
    let mut last = LAST_HANDLES.write().unwrap_or_else(PoisonError::into_inner);
    *last = Some(session.engine.last_handles());
    Some(session)
}

/// Joins the job that `horovodrun` or another launcher has started this process for, or a part of it
/// ([`JobSource`]). Other ranks may be waited for, so it happens on a thread of its own while this one
/// looks for signals.
#[pyfunction]
#[pyo3(signature = (announced=None, ranks=None))]
pub(crate) fn init(
    py: Python<'_>,
    announced: Option<(u32, u32, String)>,
    ranks: Option<Vec<u32>>,
) -> PyResult<()> {
    if is_initialized() {
        return Ok(());
    }
    let source = JobSource::new(announced, ranks);
    let helper = bootstrap::helper(py);
    let attempt = Arc::new(InitAttempt::default());
    let place = Arc::new(OnceLock::new());
    let (theirs, their_place) = (Arc::clone(&attempt), Arc::clone(&place));
    let (sender, outcome) = mpsc::channel();
    thread::Builder::new()
        .name("hvd-init".to_owned())
        .spawn(move || sender.send(find_and_join(&theirs, (&source, &helper), &their_place)))
        .map_err(|error| Error::from(StoreError::thread("hvd-init")(error)))?;
    let outcome = Mutex::new(outcome);
    loop {
        let receive = || {
            let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.recv_timeout(SIGNAL_CHECK)
        };
        match py.detach(receive) {
            Ok(joined) => {
                joined?;
                stack::register(py);
                return Ok(());
            }
            Err(RecvTimeoutError::Disconnected) => return Err(Error::NoAnswer.into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(interrupt) = py.check_signals() {
            // Without a place no other rank has heard of this one.
            attempt.abandon(place.get().unwrap_or(&Placement::alone()));
            return Err(interrupt);
        }
    }
}

/// Finds the job, says which place this process has in it, and joins.
fn find_and_join(
    attempt: &InitAttempt,
    (source, helper): (&JobSource, &[String]),
    place: &OnceLock<Placement>,
) -> Result<()> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    if current().is_ok() {
        return Ok(());
    }
    // Before the bootstrap, which may use PMIx: MPI could not be initialised after that everywhere.
    let mpi = mpi::open(&Environment::of_process())?;
    let config = WorkerConfig::read(&bootstrap::environment(source, helper)?)?;
    if config.must_be_unlaunched
        && let Some(driver) = hvd_cli::driver_above()
    {
        return Err(Error::LostEnvironment(driver));
    }
    // It is set here only.
    let _ = place.set(config.placement.clone());
    let data_plane = mpi::data_plane(mpi.as_ref(), &config)?;
    join(attempt, &config, data_plane)
}

fn join(
    attempt: &InitAttempt,
    config: &WorkerConfig,
    data_plane: Option<Arc<dyn FabricSource>>,
) -> Result<()> {
    if config.placement.rank == Rank::COORDINATOR {
        for text in config.without_effect.iter().filter_map(|it| it.no_effect()) {
            tracing::warn!("{text}");
        }
    }
    let core = core_for(config)?;
    let mesh = hvd_transport::connect(config, data_plane, &attempt.abort)?;
    let session = Arc::new(start(config, mesh, core)?);
    let entering = Arc::clone(&session);
    let enter = || *SESSION.write().unwrap_or_else(PoisonError::into_inner) = Some(entering);
    attempt.succeed(enter).inspect_err(|_| {
        // The engine knows of the failure, too, and tells the others.
        session.engine.shutdown();
    })?;
    Ok(())
}

/// The core for the engine thread of this process. Tried before other ranks are waited for.
fn core_for(config: &WorkerConfig) -> Result<Option<Core>> {
    let Some(cores) = &config.thread_affinity else {
        return Ok(None);
    };
    let local_rank = config.placement.local_rank;
    let number = usize::try_from(local_rank)
        .ok()
        .and_then(|at| cores.get(at));
    let core = number.map(|&number| Core::new(number)).transpose();
    core.map_err(|source| Error::Core { local_rank, source })
}

fn engine_options(
    config: &WorkerConfig,
    status_query: StatusQuery,
    core: Option<Core>,
    homogeneous: bool,
) -> EngineOptions {
    EngineOptions {
        fusion_threshold: fusion_threshold(config),
        cache_capacity: config.cache_capacity,
        cycle_time: config.cycle_time,
        // In which order tensors become ready, and so what travels together, is a matter of time.
        fan_out: config.control_fan_out,
        schedules: config.schedule && !config.deterministic,
        // The algorithm decides on the order of additions, and so on the last bits.
        measure_network: !config.deterministic,
        // Either way gives the same bits, deterministic or not.
        group_fusion: if config.disable_group_fusion {
            GroupFusion::Separate
        } else {
            GroupFusion::Mixed
        },
        stall: config.stall_check.map(|check| StallOptions {
            warning: check.warning,
            shutdown: check.shutdown,
        }),
        timeline: match &config.timeline {
            Some(TimelineTarget::File(path)) => Some((path.clone(), config.timeline_mark_cycles)),
            Some(TimelineTarget::Dynamic) | None => None,
        },
        core,
        dump_directory: config.dump_dir.clone(),
        autotune: autotune::options(config),
        status_query: Some(status_query),
        hierarchy: hierarchy(config, homogeneous),
        join_average: match config.join_average {
            JoinAverageChoice::AllRanks => JoinDivisor::AllRanks,
            JoinAverageChoice::Contributors => JoinDivisor::Contributors,
        },
    }
}

fn start(config: &WorkerConfig, mesh: Mesh, core: Option<Core>) -> Result<WorkerSession> {
    let Mesh {
        transport,
        abort,
        lifeline,
        topology,
        fallback_reason,
        wires,
        objects,
    } = mesh;
    if let Some(fallback_reason) = fallback_reason {
        tracing::warn!("{fallback_reason}");
    }
    let membership = Membership::new(&config.placement, lifeline);
    let sockets = membership.lifeline().map_or(&[][..], Lifeline::descriptors);
    let lifeline_sockets = Arc::new(Mutex::new(sockets.to_vec()));
    let endpoint = RankDebugEndpoint::open(config, membership.lifeline(), &topology, wires);
    let homogeneous = topology.is_homogeneous();
    let options = engine_options(config, endpoint.status_query.clone(), core, homogeneous);
    let responder = endpoint.responder;
    // Also here, for an engine that cannot be started.
    let membership = Arc::new(Mutex::new(Some(membership)));
    let (theirs, sockets) = (Arc::clone(&membership), Arc::clone(&lifeline_sockets));
    let accuser = config.clone();
    let on_exit = move |end, transport| {
        if let Some(membership) = take(&theirs) {
            leave(&accuser, end, transport, membership, &sockets);
        }
        drop(responder);
    };
    let engine = Engine::start(transport, topology, &options, on_exit).inspect_err(|error| {
        if let Some(membership) = take(&membership) {
            membership.fail(format!("could not start its engine: {error}"));
        }
    })?;
    // It is set here only.
    let _ = endpoint.log.set(engine.flight_log());
    Ok(WorkerSession {
        engine,
        placement: config.placement.clone(),
        dynamic_process_sets: config.dynamic_process_sets,
        mpi_enabled: config.mpi.is_some() || config.mpi_controller,
        has_timeline: config.timeline.is_some(),
        abort,
        joining: Mutex::new(None),
        lifeline_sockets,
        objects,
    })
}

fn take(membership: &Mutex<Option<Membership>>) -> Option<Membership> {
    let mut membership = membership.lock().unwrap_or_else(PoisonError::into_inner);
    membership.take()
}

/// With equally many ranks on all hosts, allreduce by way of them is no slower at any length even
/// where the network costs nothing, otherwise it is (`by_host` of hvd-collectives).
fn hierarchy(config: &WorkerConfig, homogeneous: bool) -> Hierarchy {
    Hierarchy {
        allreduce: config.hierarchical_allreduce.unwrap_or(homogeneous),
        allgather: config.hierarchical_allgather.unwrap_or(false),
    }
}

fn fusion_threshold(config: &WorkerConfig) -> u64 {
    // The order in which an element is summed depends on its place in the buffer, and that on what
    // else is in it.
    if config.deterministic {
        0
    } else {
        config.fusion_threshold
    }
}

/// Closes the connections of an engine that has ended, and reports the rank that caused it to
/// the launcher and the other ranks.
fn leave(
    config: &WorkerConfig,
    end: ExitReport,
    transport: Box<dyn Transport>,
    membership: Membership,
    sockets: &Mutex<Vec<RawFd>>,
) {
    let culprit = match &end {
        ExitReport::Agreed => None,
        ExitReport::ShutDownBy(rank) => Some(*rank),
        ExitReport::Failed(failure) => Some(failure.rank),
    };
    // The launcher first: this rank or another may end as soon as it receives the failure.
    if let Some(culprit) = culprit
        && let Err(error) = hvd_transport::accuse(config, culprit)
    {
        tracing::info!("cannot report rank {culprit} as the cause to the launcher: {error}");
    }
    mpi::session_ended(&end);
    // The other ranks learn the cause before they see our connections close; and the lifeline, whose
    // end is a goodbye, goes last, so that deaths are noticed until then.
    if let (ExitReport::Failed(failure), Some(lifeline)) = (end, membership.lifeline()) {
        lifeline.report(failure);
    }
    drop(transport);
    sockets
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
    membership.leave();
}

/// Leaves the job, together with all other ranks. A rank that ends because of an uncaught
/// exception says so in `failure`, and the others are told that instead of a goodbye.
#[pyfunction]
#[pyo3(signature = (failure=None))]
pub(crate) fn shutdown(py: Python<'_>, failure: Option<String>) {
    py.detach(|| {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let session = end_current();
        if let Some(session) = session {
            if let Some(exception) = failure {
                session.fail(&exception);
            }
            session.engine.shutdown();
        }
    });
    stack::unregister(py);
}

impl WorkerSession {
    /// Ends the communication of all ranks because this one ended with an exception.
    fn fail(&self, exception: &str) {
        self.abort.raise(Failure {
            rank: self.placement.rank,
            host: self.placement.hostname.clone(),
            reason: format!("ended with {exception}"),
        });
    }
}

/// Forgets the parent's engine in a forked child: its thread does not exist here, so it can
/// neither be used nor shut down. The child also lets go of the lifeline, or the other ranks would not notice
/// the parent's death while the child lives.
#[pyfunction]
pub(crate) fn after_fork_in_child(py: Python<'_>) {
    stack::after_fork_in_child(py);
    bootstrap::after_fork_in_child();
    let session = SESSION
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(session) = session {
        // If the parent's engine thread held the lock at the fork, it was closing them itself.
        if let Ok(sockets) = session.lifeline_sockets.try_lock() {
            close_inherited(&sockets);
        }
        #[expect(
            clippy::mem_forget,
            reason = "a drop would wait for a thread that is not there"
        )]
        std::mem::forget(session);
    }
}

/// Whether `init` has been called, and `shutdown` has not.
#[pyfunction]
pub(crate) fn is_initialized() -> bool {
    current().is_ok()
}

/// Whether every host of the job has the same number of ranks.
#[pyfunction]
pub(crate) fn is_homogeneous() -> PyResult<bool> {
    Ok(known("is_homogeneous()")?
        .engine
        .topology()
        .is_homogeneous())
}

/// Starts to write the timeline to a file, on rank 0.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "that is how arguments come from Python"
)]
pub(crate) fn start_timeline(
    py: Python<'_>,
    file_path: PathBuf,
    mark_cycles: bool,
) -> PyResult<()> {
    let session = known("start_timeline()")?;
    if !session.has_timeline {
        return Err(Error::NoTimeline.into());
    }
    Ok(py.detach(|| {
        let started = session.engine.start_timeline(&file_path, mark_cycles);
        started.map_err(Error::from)
    })?)
}

/// Completes the timeline's file.
#[pyfunction]
pub(crate) fn stop_timeline(py: Python<'_>) -> PyResult<()> {
    let session = known("stop_timeline()")?;
    py.detach(|| session.engine.stop_timeline());
    Ok(())
}

/// What the engine has done so far, by name.
#[pyfunction]
pub(crate) fn counters() -> PyResult<BTreeMap<&'static str, u64>> {
    let counts = known("counters()")?.engine.counts();
    Ok(BTreeMap::from([
        ("negotiation_messages", counts.negotiation_messages),
        ("ready_notices", counts.ready_notices),
        ("schedules", counts.schedules),
        ("scheduled_operations", counts.scheduled_operations),
        ("negotiated_operations", counts.negotiated_operations),
        ("connections", counts.connections),
    ]))
}

/// What moves the bytes of this job.
#[pyfunction]
pub(crate) fn transport() -> PyResult<&'static str> {
    Ok(known("transport()")?.engine.transport_kind())
}

pub(crate) fn known(question: &'static str) -> Result<Arc<WorkerSession>> {
    current().map_err(|_| Error::NotInitialized(question))
}

/// Number of this process in the job.
#[pyfunction]
pub(crate) fn rank() -> PyResult<u32> {
    Ok(known("rank()")?.placement.rank.number())
}

/// Number of this process on its host.
#[pyfunction]
pub(crate) fn local_rank() -> PyResult<u32> {
    Ok(known("local_rank()")?.placement.local_rank)
}

/// Position of this host among those with a process of the same local rank.
#[pyfunction]
pub(crate) fn cross_rank() -> PyResult<u32> {
    Ok(known("cross_rank()")?.placement.cross_rank)
}

/// Number of processes in the job.
#[pyfunction]
pub(crate) fn size() -> PyResult<u32> {
    Ok(known("size()")?.placement.size)
}

/// Number of processes on this host.
#[pyfunction]
pub(crate) fn local_size() -> PyResult<u32> {
    Ok(known("local_size()")?.placement.local_size)
}

/// Number of hosts with a process of the same local rank.
#[pyfunction]
pub(crate) fn cross_size() -> PyResult<u32> {
    Ok(known("cross_size()")?.placement.cross_size)
}

/// The ranks on this host, by local rank.
#[pyfunction]
pub(crate) fn local_ranks() -> PyResult<Vec<u32>> {
    let session = known("local_ranks()")?;
    let topology = session.engine.topology();
    Ok(numbers(topology.local_group(session.placement.rank)))
}

/// The ranks with this process's local rank, by cross rank.
#[pyfunction]
pub(crate) fn cross_ranks() -> PyResult<Vec<u32>> {
    let session = known("cross_ranks()")?;
    let topology = session.engine.topology();
    Ok(numbers(topology.cross_group(session.placement.rank)))
}

fn numbers(ranks: &[Rank]) -> Vec<u32> {
    ranks.iter().map(|rank| rank.number()).collect()
}
