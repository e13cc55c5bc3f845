//! The engine as its callers see it: started once the ranks are connected, asked for operations
//! from any thread, and shut down together with all other ranks.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hvd_transport::{ConnectionCount, Failure, StatusQuery, Transport};
use hvd_types::{OpKind, ProcessSetId, Rank, Topology};
use hvd_wire::{Request, SetChange};

use crate::affinity::Core;
use crate::autotune::AutotuneOptions;
use crate::counters::{Counters, Counts};
use crate::cycle::Cycle;
use crate::cycle_owner::CycleOwner;
use crate::execute::team::Hierarchy;
use crate::fusion::batches::GroupFusion;
use crate::handle::{
    Completer, Completion, Handle, Handles, LastHandles, OperationOutput, OperationProgress,
};
use crate::negotiate::coordinator::JoinDivisor;
use crate::observe::Observer;
use crate::process_set::ProcessSets;
use crate::queue::{Batch, BoxedEntry, Queue, QueueEntry, SetChangeEntry, Waiter, WakeRequest};
use crate::recorder::FlightLog;
use crate::stall::StallOptions;
use crate::submit::{Submission, check_name};
use crate::timeline::Timeline;
use crate::{Error, Result};

pub(crate) mod start;

/// Options of an engine, fixed when it starts.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Largest fused operation in bytes; 0 turns fusion off.
    pub fusion_threshold: u64,
    /// Number of tensors whose negotiation is remembered.
    pub cache_capacity: usize,
    /// Least time between two rounds of negotiation.
    pub cycle_time: Duration,
    /// Whether tensors of different groups may travel together.
    pub group_fusion: GroupFusion,
    /// Whether steps that are always the same are executed without negotiation.
    pub schedules: bool,
    /// Whether the algorithm of an allreduce is chosen by what messages are measured to cost, and
    /// not by a fixed size.
    pub measure_network: bool,
    /// What an average is divided by while some ranks have joined.
    pub join_average: JoinDivisor,
    /// Fan-out of the control tree: most children that a rank has on its host, and on other hosts.
    /// `None` decides by the size of the job; a small one is a star.
    pub fan_out: Option<NonZeroUsize>,
    /// Which operations go by way of hosts.
    pub hierarchy: Hierarchy,
    /// How long a tensor may wait for some of the ranks.
    pub stall: Option<StallOptions>,
    /// Where rank 0 writes the timeline from the start, and whether it marks cycles.
    pub timeline: Option<(PathBuf, bool)>,
    /// The core that the engine thread is bound to.
    pub core: Option<Core>,
    /// Where each rank writes its last operations if the engine fails.
    pub dump_directory: Option<PathBuf>,
    /// The search for faster parameters than the above, if there is to be one. Rank 0's counts.
    pub autotune: Option<AutotuneOptions>,
    /// How rank 0 asks missing ranks for their state.
    pub status_query: Option<StatusQuery>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            fusion_threshold: 128 << 20,
            cache_capacity: 1024,
            cycle_time: Duration::ZERO,
            group_fusion: GroupFusion::default(),
            schedules: true,
            measure_network: false,
            join_average: JoinDivisor::default(),
            fan_out: None,
            hierarchy: Hierarchy::default(),
            stall: None,
            timeline: None,
            core: None,
            dump_directory: None,
            autotune: None,
            status_query: None,
        }
    }
}

/// How the engine's communication ended, for the owner of the connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReport {
    /// This rank wanted to shut down, and all do.
    Agreed,
    /// All ranks shut down because another one wanted to.
    ShutDownBy(Rank),
    /// Something failed. The other ranks have to learn which rank is to blame, or they wait for
    /// ever.
    Failed(Failure),
}

/// One rank's engine.
pub struct Engine {
    rank: Rank,
    size: usize,
    topology: Topology,
    process_sets: Arc<ProcessSets>,
    timeline: Timeline,
    flight_log: FlightLog,
    kind: &'static str,
    queue: Arc<Queue>,
    cycle_owner: Arc<CycleOwner>,
    counters: Arc<Counters>,
    connections: ConnectionCount,
    handles: Arc<Handles>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the engine thread of one rank. `topology` is that of the job; `on_exit` is
    /// called on the engine thread when nothing is pending any more, and gets the transport back
    /// to close it.
    pub fn start(
        transport: Box<dyn Transport>,
        topology: Topology,
        options: &EngineOptions,
        on_exit: impl FnOnce(ExitReport, Box<dyn Transport>) + Send + 'static,
    ) -> Result<Self> {
        let (rank, size, kind) = (transport.rank(), transport.size(), transport.kind());
        if topology.size() != size {
            let known = topology.size();
            let problem = format!("the hosts of {known} ranks are known, of a job of {size}");
            return Err(Error::Internal(problem));
        }
        let queue = Arc::new(Queue::new());
        let timeline = start::timeline(rank, options);
        let process_sets = Arc::new(ProcessSets::new(size));
        let observer = Observer::new(timeline.clone(), options.dump_directory.clone());
        let flight_log = observer.flight_log();
        let connections = transport.connections();
        let mut cycle = Cycle::new(
            transport,
            Arc::clone(&queue),
            start::control_role(rank, &topology, options, &timeline),
            Arc::clone(&process_sets),
            topology.clone(),
            options.hierarchy,
            observer,
        )
        .with_status_query(options.status_query.clone());
        if options.measure_network {
            cycle.measure_network();
        }
        let counters = cycle.counters();
        let cycle_owner = Arc::new(CycleOwner::new(cycle));
        let thread = start::engine_thread(Arc::clone(&cycle_owner), options.core, on_exit)?;
        Ok(Self {
            rank,
            size,
            topology,
            process_sets,
            timeline,
            flight_log,
            kind,
            queue,
            cycle_owner,
            counters,
            connections,
            handles: Arc::default(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Number of ranks in the job.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Which ranks of the job share a host.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What moves the bytes between ranks.
    pub fn transport_kind(&self) -> &'static str {
        self.kind
    }

    /// This rank's last operations, for answers to a status query.
    pub fn flight_log(&self) -> FlightLog {
        self.flight_log.clone()
    }

    /// What this engine has done so far.
    pub fn counts(&self) -> Counts {
        self.counters.read(self.connections.get())
    }

    /// The process sets there are.
    pub fn process_sets(&self) -> &ProcessSets {
        &self.process_sets
    }

    /// Accepts an operation and returns its handle. The result comes through the handle; an error
    /// here means that nothing was started.
    pub fn submit(&self, submission: Submission) -> Result<Handle> {
        let (handle, entry) = self.prepare(submission)?;
        self.start_all([entry], &[handle])?;
        Ok(handle)
    }

    /// As [`Engine::submit`], for a caller who waits at once ([`Engine::wait`]): the engine thread
    /// is not woken, because the caller can do all of the work itself.
    pub fn submit_quietly(&self, submission: Submission) -> Result<Handle> {
        let (handle, entry) = self.prepare(submission)?;
        let result = self.queue.push_quietly([entry]);
        if result.is_err() {
            self.forget_all(&[handle]);
        }
        result.map(|()| handle)
    }

    /// Whether an operation has ended. If it has not, the engine is woken to work on it.
    pub fn poll(&self, completion: &Completion) -> bool {
        let done = completion.is_done();
        if !done {
            self.wake_if_needed(self.queue.call());
        }
        done
    }

    /// Waits up to `limit` for an operation and takes its result; `None` if it has not ended by
    /// then. Meanwhile the calling thread runs the cycle, if no other thread does.
    pub fn wait(
        &self,
        completion: &Completion,
        limit: Duration,
    ) -> Option<Result<OperationOutput>> {
        if !completion.is_done() {
            let end = Instant::now() + limit;
            let _waiter = self.work_on(completion, end);
            return completion.wait(end.saturating_duration_since(Instant::now()));
        }
        completion.wait(limit)
    }

    /// Runs the cycle until an operation has ended or `end` has come, unless another thread does.
    /// While the result lives, the queue knows that a caller waits.
    pub(crate) fn work_on(&self, completion: &Completion, end: Instant) -> Waiter<'_> {
        let waiter = self.queue.waiter();
        let unseen = self.queue.has_unseen();
        self.cycle_owner.run_until(completion, end, unseen);
        if !completion.is_done() {
            self.wake_if_needed(self.queue.call());
        }
        waiter
    }

    fn wake_if_needed(&self, request: WakeRequest) {
        if request == WakeRequest::Needed {
            self.cycle_owner.wake();
        }
    }

    /// Accepts several operations at once, all or none of them, and returns their handles. The
    /// group is called `name`, or automatically; its members `<name>_<i>of<n>`, counted from 1.
    pub fn submit_group(
        &self,
        name: Option<Arc<str>>,
        submissions: Vec<Submission>,
    ) -> Result<Vec<Handle>> {
        let first = submissions.first();
        let (kind, id) = first.map_or((OpKind::Allreduce, ProcessSetId::GLOBAL), |first| {
            (first.kind, first.process_set)
        });
        check_name(kind, name.as_deref())?;
        let unnamed = || self.process_sets.next_unnamed(id);
        let automatic = || format!("grouped_{kind}.noname.{}", unnamed()).into();
        let group: Arc<str> = name.unwrap_or_else(automatic);
        let count = submissions.len();
        let mut handles = Vec::with_capacity(count);
        let mut entries = Vec::with_capacity(count);
        for (index, mut submission) in submissions.into_iter().enumerate() {
            submission.enroll(&group, index, count);
            match self.prepare(submission) {
                Ok((handle, entry)) => {
                    handles.push(handle);
                    entries.push(entry);
                }
                Err(error) => {
                    self.forget_all(&handles);
                    return Err(error);
                }
            }
        }
        self.start_all(entries, &handles)?;
        Ok(handles)
    }

    /// Asks for a new process set or the end of one, which all ranks must do in the same order.
    /// The order of the ranks in a set is of no importance. The number of the set comes through the
    /// completion.
    pub fn change_process_sets(&self, mut change: SetChange) -> Result<Arc<Completion>> {
        if let SetChange::Add(ranks) = &mut change {
            ranks.sort_unstable();
        }
        let completion = Arc::new(Completion::default());
        let completer = Completer::new(&completion);
        let call = self
            .queue
            .push_change(SetChangeEntry { change, completer })?;
        self.wake_if_needed(call);
        Ok(completion)
    }

    fn prepare(&self, mut submission: Submission) -> Result<(Handle, BoxedEntry)> {
        let request = self.request(&mut submission)?;
        let handle = Handles::reserve();
        let completion = Arc::new(Completion::default());
        let completer = Completer::new(&completion);
        // Known before it can complete, so that a caller who sees it complete finds it.
        self.handles.insert(handle, completion);
        Ok((handle, QueueEntry::new(request, submission, completer)))
    }

    /// Checks an operation and describes it to the other ranks.
    pub(crate) fn request(&self, submission: &mut Submission) -> Result<Request> {
        let id = submission.process_set;
        let size = self.process_sets.with_members(id, |members| {
            submission.check(self.rank, members)?;
            Result::Ok(members.map_or(self.size, <[Rank]>::len))
        })?;
        let unnamed = || self.process_sets.next_unnamed(id);
        Ok(submission.request(unnamed, size))
    }

    /// Starts operations that are completed by callback, also if they are refused.
    pub(crate) fn start_with_callback(&self, entries: impl Batch) {
        if let Ok(call) = self.queue.push_with_callback(entries) {
            self.wake_if_needed(call);
        }
    }

    /// Starts operations that are completed by callback and that the caller works on itself.
    pub(crate) fn start_quietly(&self, entries: impl Batch) {
        // Entries that were refused have been told.
        drop(self.queue.push_quietly(entries));
    }

    fn start_all(&self, entries: impl Batch, handles: &[Handle]) -> Result<()> {
        match self.queue.push(entries) {
            Ok(call) => {
                self.wake_if_needed(call);
                Ok(())
            }
            Err(error) => {
                self.forget_all(handles);
                Err(error)
            }
        }
    }

    fn forget_all(&self, handles: &[Handle]) {
        for &handle in handles {
            self.handles.forget(handle);
        }
    }

    /// The shared end of an operation, for polling and waiting; `None` for an unknown handle.
    pub fn completion(&self, handle: Handle) -> Option<Arc<Completion>> {
        self.handles.get(handle)
    }

    /// The result of an operation that has ended, whose handle is forgotten then; otherwise what to
    /// wait for. `None` for an unknown handle.
    pub fn progress(&self, handle: Handle) -> Option<OperationProgress> {
        self.handles.progress(handle)
    }

    /// Forgets a handle. The operation itself goes on.
    pub fn forget(&self, handle: Handle) {
        self.handles.forget(handle);
    }

    /// The handles, for those who wait for one after the engine is gone.
    pub fn last_handles(&self) -> LastHandles {
        LastHandles(Arc::clone(&self.handles))
    }

    /// Starts to write the timeline to a file; only rank 0 does.
    pub fn start_timeline(&self, path: &Path, mark_cycles: bool) -> Result<()> {
        if self.rank != Rank::COORDINATOR {
            return Ok(());
        }
        let started = self.timeline.start(path, start::cycle_marks(mark_cycles));
        // A schedule has no negotiation to show, so it ends.
        self.cycle_owner.wake();
        started.map_err(|error| Error::Internal(error.to_string()))
    }

    /// Completes the timeline's file.
    pub fn stop_timeline(&self) {
        self.timeline.stop();
    }

    /// Ends the engine on all ranks, fails what is still pending everywhere, and returns when this
    /// rank's engine thread has ended. Harmless if it has ended already.
    pub fn shutdown(&self) {
        self.queue.request_shutdown();
        self.cycle_owner.wake();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic of the engine thread has been reported where it happened; its entries have
            // completed by being dropped.
            let _ = thread.join();
        }
        self.timeline.stop();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("size", &self.size)
            .field("transport", &self.kind)
            .finish_non_exhaustive()
    }
}
