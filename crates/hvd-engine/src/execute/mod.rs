//! Agreed operations carried out: one file per operation, each a translation from tensors to the
//! slices that `hvd-collectives` works on.
//!
//! The executor owns the memory that is kept between operations. It neither negotiates nor looks
//! at the queue. It completes every task it is given, whatever happens.

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod broadcast;
pub(crate) mod inlined;
mod network_cost;
mod phases;
mod reducescatter;
pub(crate) mod team;

use std::sync::Arc;

use hvd_collectives::{Combine, Communicator, Scratch, Workspace, kernel};
use hvd_transport::Transport;
use hvd_types::{OpKind, Rank, Topology};
use hvd_wire::{Operation, TensorSpec, Tuned};

use crate::handle::{Completer, OperationOutput};
use crate::queue::BoxedEntry;
use crate::tensor::{TensorSource, TensorTarget};
use crate::timeline::{Activity, Timeline};
use crate::{Error, Result};
use phases::Phases;
use team::{Hierarchy, Team};

/// A tensor of an agreed operation, with what this rank submitted for it; nothing if this rank has
/// joined.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) spec: Arc<TensorSpec>,
    pub(crate) entry: Option<BoxedEntry>,
}

/// What an operation's file sees of a task.
struct Work {
    spec: Arc<TensorSpec>,
    source: TensorSource,
    target: TensorTarget,
    splits: Vec<u64>,
    /// Whether this rank has joined, and its source holds elements that change no result.
    neutral: bool,
}

/// What an operation's file works with.
struct Context<'a> {
    comm: Communicator<'a>,
    team: &'a Team,
    /// The hosts, if allreduce goes by way of them.
    allreduce_hosts: Option<&'a Topology>,
    /// The hosts, if allgather goes by way of them.
    allgather_hosts: Option<&'a Topology>,
    workspace: &'a mut Workspace,
    /// Where fused tensors travel.
    fusion: &'a mut Scratch,
    /// Where the result of a fused operation lands if it is not in the same place.
    result: &'a mut Scratch,
    phases: Phases<'a>,
}

/// The first `length` bytes of a buffer, which is made larger if it is too small. Takes the parts
/// of a context, so that the rest of it can be used while the buffer is.
fn buffer<'b>(scratch: &'b mut Scratch, length: usize, phases: &mut Phases<'_>) -> &'b mut [u8] {
    if !scratch.holds(length) {
        phases.begin(Activity::InitFusionBuffer);
    }
    scratch.bytes(length)
}

impl Context<'_> {
    /// Where a rank stands in the group that executes.
    fn position(&self, rank: Rank) -> hvd_collectives::Result<usize> {
        let members = &self.team.members;
        let stranger = |_| hvd_collectives::Error::NoSuchMember {
            index: rank.index(),
            members: members.len(),
        };
        members.binary_search(&rank).map_err(stranger)
    }
}

/// Carries out operations, in the order in which they are given.
#[derive(Debug)]
pub(crate) struct Executor {
    hierarchy: Hierarchy,
    /// Whether what messages cost is to be measured before the first allreduce over connections.
    measures: bool,
    workspace: Workspace,
    fusion: Scratch,
    result: Scratch,
}

impl Executor {
    pub(crate) fn new(hierarchy: Hierarchy) -> Self {
        Self {
            hierarchy,
            measures: false,
            workspace: Workspace::default(),
            fusion: Scratch::new(),
            result: Scratch::new(),
        }
    }

    /// Has the network measured once, to choose algorithms by what they cost on it.
    pub(crate) fn measure_network(&mut self) {
        self.measures = true;
    }

    /// Executes differently from the next operation on, as all ranks do at the same point.
    pub(crate) fn tune(&mut self, tuned: Tuned) {
        let size = |bytes: u64| count(bytes.min(Tuned::LIMIT));
        self.workspace.tuning.chunk_bytes = size(tuned.chunk_bytes);
        self.workspace.tuning.small_allreduce_bytes = size(tuned.small_allreduce_bytes);
        self.workspace.tuning.cost = None;
        self.measures = false;
        self.hierarchy = Hierarchy {
            allreduce: tuned.hierarchical_allreduce,
            allgather: tuned.hierarchical_allgather,
        };
    }

    /// Executes one operation of a team and completes its tasks. An error means that the ranks are
    /// no longer in step and nothing more can be executed.
    pub(crate) fn execute(
        &mut self,
        transport: &mut dyn Transport,
        team: &Team,
        operation: &Operation,
        tasks: Vec<Task>,
        timeline: &Timeline,
    ) -> Result<()> {
        let (works, completers) = split(operation, tasks);
        let label = label(operation, &works);
        let phases = Phases::new(timeline, &works);
        let result = self.run(transport, team, operation, works, phases);
        complete(completers, result, label)
    }

    /// Executes an operation whose tensors came from all ranks with their notices, and completes
    /// its tasks.
    pub(crate) fn execute_inlined(
        &mut self,
        operation: &Operation,
        tasks: Vec<Task>,
        notices: &[impl AsRef<[u8]>],
    ) -> Result<()> {
        let (works, completers) = split(operation, tasks);
        let label = label(operation, &works);
        let result = inlined::spread(operation, works, notices, &mut self.result);
        complete(completers, result, label)
    }

    fn run(
        &mut self,
        transport: &mut dyn Transport,
        team: &Team,
        operation: &Operation,
        works: Vec<Work>,
        phases: Phases<'_>,
    ) -> hvd_collectives::Result<Vec<OperationOutput>> {
        let mut comm = Communicator::new(transport, &team.members)?;
        let is_first = self.measures && operation.kind == OpKind::Allreduce;
        if is_first && team.members.len() == comm.transport().size() {
            // All ranks come by here before the same operation, joined ones too.
            self.measures = false;
            if !comm.shares_memory() {
                let cost = network_cost::measure(&mut comm, &mut self.workspace)?;
                tracing::debug!(?cost, "messages between ranks");
                self.workspace.tuning.cost = Some(cost);
            }
        }
        let mut context = Context {
            comm,
            team,
            allreduce_hosts: team.hosts.as_ref().filter(|_| self.hierarchy.allreduce),
            allgather_hosts: team.hosts.as_ref().filter(|_| self.hierarchy.allgather),
            workspace: &mut self.workspace,
            fusion: &mut self.fusion,
            result: &mut self.result,
            phases,
        };
        match operation.kind {
            OpKind::Allreduce | OpKind::Adasum => {
                allreduce::allreduce(&mut context, operation, works)
            }
            OpKind::Allgather => allgather::allgather(&mut context, operation, works),
            OpKind::Broadcast => broadcast::broadcast(&mut context, operation, works),
            OpKind::Alltoall => alltoall::alltoall(&mut context, operation, works),
            OpKind::Reducescatter => reducescatter::reducescatter(&mut context, operation, works),
            OpKind::Barrier => barrier::barrier(&mut context),
            // Has an answer of its own and is never executed.
            OpKind::Join => Ok(Vec::new()),
        }
    }
}

fn split(operation: &Operation, tasks: Vec<Task>) -> (Vec<Work>, Vec<Option<Completer>>) {
    tasks.into_iter().map(|task| task.split(operation)).unzip()
}

/// Completes tasks with their outcomes. An error means that the ranks are no longer in step.
fn complete(
    completers: Vec<Option<Completer>>,
    result: hvd_collectives::Result<Vec<OperationOutput>>,
    label: impl Fn() -> String,
) -> Result<()> {
    match result {
        Ok(outcomes) => {
            let done = completers.into_iter().zip(outcomes);
            for (completer, outcome) in done.filter_map(|(to, what)| Some((to?, what))) {
                completer.complete(Ok(outcome));
            }
            Ok(())
        }
        Err(failure) => {
            let (error, fatal) = explain(label, failure);
            for completer in completers.into_iter().flatten() {
                completer.complete(Err(error.clone()));
            }
            if fatal { Err(error) } else { Ok(()) }
        }
    }
}

impl Task {
    fn split(self, operation: &Operation) -> (Work, Option<Completer>) {
        let spec = self.spec;
        let Some(entry) = self.entry else {
            return (Work::neutral(spec, operation), None);
        };
        let (source, target, splits, completer) = entry.into_parts();
        let work = Work {
            spec,
            source,
            target,
            splits,
            neutral: false,
        };
        (work, Some(completer))
    }
}

impl Work {
    /// A rank that has joined takes part with elements that change no result.
    fn neutral(spec: Arc<TensorSpec>, operation: &Operation) -> Self {
        let elements = count(spec.shape.elements().unwrap_or(0));
        let mut bytes = vec![0; elements.saturating_mul(operation.dtype.size())];
        let Combine { dtype, reduction } = allreduce::combine(operation);
        let filled = kernel::fill_neutral(dtype, reduction, &mut bytes);
        debug_assert!(filled.is_ok(), "whole elements of a known type");
        Self {
            spec,
            source: TensorSource::owned(bytes),
            target: TensorTarget::allocate(),
            splits: Vec::new(),
            neutral: true,
        }
    }
}

/// The operation as errors name it.
fn label(operation: &Operation, works: &[Work]) -> impl Fn() -> String + use<> {
    let kind = operation.kind;
    let first = works.first().map(|work| Arc::clone(&work.spec.name));
    let others = works.len().saturating_sub(1);
    move || match (&first, others) {
        (None, _) => kind.to_string(),
        (Some(name), 0) => format!("{kind} of tensor `{name}`"),
        (Some(name), others) => format!("{kind} of tensor `{name}` and {others} more"),
    }
}

/// The error for the caller, and whether it is the end of all communication.
fn explain(label: impl Fn() -> String, failure: hvd_collectives::Error) -> (Error, bool) {
    match failure {
        hvd_collectives::Error::Transport(error) => (error.into(), true),
        other => (
            Error::Execution {
                operation: label(),
                reason: other.to_string(),
            },
            false,
        ),
    }
}

/// A number of rows or elements that is known to fit, because memory for it exists or will be
/// asked for; anything else fails in the allocation that follows.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Bytes of one row of a tensor.
fn row_bytes(spec: &TensorSpec, operation: &Operation) -> usize {
    count(spec.shape.row_elements().unwrap_or(u64::MAX)).saturating_mul(operation.dtype.size())
}
