//! What ranks tell each other.
//!
//! A tensor is described in full once ([`Request`]). If the ranks agree and it may come again, the
//! coordinator gives it a [`CacheId`], and from then on the number stands for the description. A
//! number is never given twice in a job, so a message that crosses an eviction on its way still
//! means what its sender meant.

use std::sync::Arc;

use hvd_types::{DType, Device, OpKind, ProcessSetId, Rank, ReduceOp, Shape};

/// The number of an agreed description, given by the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheId(pub u64);

/// "This tensor is ready here": one rank's full description of an operation it asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The tensor's name, by which ranks are matched.
    pub name: Arc<str>,
    /// The operation.
    pub kind: OpKind,
    /// Type of the elements.
    pub dtype: DType,
    /// This rank's shape.
    pub shape: Shape,
    /// The rank whose data a broadcast spreads; 0 for other operations.
    pub root: Rank,
    /// Where the memory is.
    pub device: Device,
    /// How elements are reduced.
    pub reduce_op: ReduceOp,
    /// Factor before the reduction.
    pub prescale: f64,
    /// Factor after the reduction.
    pub postscale: f64,
    /// The group this tensor was submitted with, by its name.
    pub group: Option<Arc<str>>,
}

/// What a rank tells the coordinator about one process set: what became ready there since the
/// last message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ready {
    /// The process set all of this is about.
    pub process_set: ProcessSetId,
    /// Sequence number of the last verdict on this set that this rank has read.
    pub seen: u64,
    /// Tensors that were agreed before and have not changed.
    pub cached: Vec<CacheId>,
    /// Tensors that are new or have changed.
    pub requests: Vec<Request>,
    /// Process sets this rank wants to see added or removed, in this order.
    pub changes: Vec<SetChange>,
    /// Whether this rank wants the job's engine to shut down.
    pub shutdown: bool,
    /// Said once of a plan: this rank does not go on with it.
    pub halted: Option<Halted>,
}

/// How far a rank has come in a plan that it does not go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halted {
    /// The plan's number.
    pub plan: u64,
    /// The first operation that this rank has not called for, counted from 0 over all rounds.
    pub next: u64,
}

/// A change of the process sets, which all ranks have to ask for in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetChange {
    /// A new set of these ranks, ascending.
    Add(Vec<Rank>),
    /// The end of a set.
    Remove(ProcessSetId),
}

/// What became of a change of the process sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetVerdict {
    /// The set exists from here on.
    Added {
        /// Its number.
        id: ProcessSetId,
        /// Its members, ascending.
        ranks: Vec<Rank>,
    },
    /// The set does not exist any more.
    Removed(ProcessSetId),
    /// Nothing has changed, for this reason.
    Refused(String),
}

/// What the coordinator tells every member of a process set. Verdicts on a set are numbered from 1;
/// a rank carries out all verdicts in the order in which it gets them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// The process set this is about.
    pub process_set: ProcessSetId,
    /// Number of this verdict.
    pub sequence: u64,
    /// Descriptions to forget, before anything else is done.
    pub evicted: Vec<CacheId>,
    /// How operations are executed from here on, those of this verdict first, if that changes.
    /// Only verdicts on the global set say so: every rank gets them, at the same point of the order.
    pub tuned: Option<Tuned>,
    /// What to do, in order.
    pub responses: Vec<Response>,
    /// What is said of a plan; after the responses. Only verdicts on the global set say something.
    pub plan: Option<PlanVerdict>,
    /// What became of changes of the process sets, in order; after the responses.
    pub changes: Vec<SetVerdict>,
    /// The rank that asked for the engine to end after this, if one did.
    pub shutdown: Option<Rank>,
}

/// What all ranks that execute an operation must do alike, and may change between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuned {
    /// Bytes that travel before the receiver starts to work on them; from 1 to [`Tuned::LIMIT`].
    pub chunk_bytes: u64,
    /// Largest allreduce that is done in few steps rather than with few bytes; up to
    /// [`Tuned::LIMIT`].
    pub small_allreduce_bytes: u64,
    /// Whether allreduce goes by way of hosts.
    pub hierarchical_allreduce: bool,
    /// Whether allgather goes by way of hosts.
    pub hierarchical_allgather: bool,
}

impl Tuned {
    /// The largest size in bytes that is accepted; it fits every machine's `usize`.
    pub const LIMIT: u64 = 1 << 30;
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// Execute an operation, possibly on several tensors at once.
    Execute(Operation),
    /// The ranks do not agree about a tensor; whoever waits for it is told why.
    Refuse {
        /// The tensor.
        name: Arc<str>,
        /// What does not agree, naming both sides.
        reason: String,
    },
    /// Every rank has joined.
    Joined {
        /// The one that came last.
        last: Rank,
    },
}

/// An operation that every rank executes at the same point of the order.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What to do.
    pub kind: OpKind,
    /// Type of the elements of every member.
    pub dtype: DType,
    /// How elements are reduced.
    pub reduce_op: ReduceOp,
    /// Factor before the reduction.
    pub prescale: f64,
    /// Factor after the reduction.
    pub postscale: f64,
    /// The rank whose data a broadcast spreads.
    pub root: Rank,
    /// What an average is divided by.
    pub divisor: u32,
    /// The tensors; more than one if they were fused.
    pub members: Vec<Member>,
}

/// One tensor of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Member {
    /// Described by an earlier verdict.
    Known(CacheId),
    /// Described here.
    New(TensorPlan),
}

/// The agreed description of one tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorPlan {
    /// The tensor's name.
    pub name: Arc<str>,
    /// The number that stands for it from now on, if it is to be remembered.
    pub cache: Option<CacheId>,
    /// The shape; its first dimension is rank 0's where ranks may differ.
    pub shape: Shape,
    /// First dimension on every rank, where ranks may differ; else empty.
    pub first_dimensions: Vec<u64>,
}

/// What the coordinator says of the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanVerdict {
    /// From here on operations are executed by this plan, without negotiation.
    Begin(Plan),
    /// Nobody calls for any more operations of the plan with this number. Every rank answers how
    /// far it has come.
    Halt(u64),
    /// The plan is over: operations before `next` are executed, no others.
    End {
        /// The plan's number.
        number: u64,
        /// The first operation that is not executed.
        next: u64,
    },
}

/// Operations that come over and over, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Plans of a job are numbered from 1.
    pub number: u64,
    /// One round.
    pub operations: Vec<Operation>,
}

/// What a rank calls out to others when it has everything for the next operation of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The plan's number.
    pub plan: u64,
    /// The operation, counted from 0 over all rounds.
    pub operation: u64,
    /// This rank's tensors, if they are small enough to travel with the note.
    pub tensors: Vec<u8>,
}

/// What a control message is: its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A [`Ready`] to the coordinator, or a [`Verdict`] from it.
    Negotiation = 0,
    /// A [`Note`].
    Note = 1,
}
