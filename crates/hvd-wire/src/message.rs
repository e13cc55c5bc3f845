//! The messages that ranks exchange.
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

/// One rank's full description of an operation that it has submitted.
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

/// What a rank has submitted in one process set since its last message to the coordinator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestList {
    /// The process set of all requests in this list.
    pub process_set: ProcessSetId,
    /// Sequence number of the last response list for this set that this rank has read.
    pub seen: u64,
    /// Tensors that were agreed before and have not changed.
    pub cached: Vec<CacheId>,
    /// Tensors that are new or have changed.
    pub requests: Vec<Request>,
    /// Process sets that this rank asks to add or remove, in this order.
    pub changes: Vec<SetChange>,
    /// Whether this rank asks for a shutdown of the engine.
    pub shutdown: bool,
    /// Sent once per schedule, when this rank stops following it.
    pub halted: Option<ScheduleHalt>,
}

/// How far a rank has come in a schedule that it stops following.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleHalt {
    /// The schedule's number.
    pub schedule: u64,
    /// The first operation for which this rank has sent no [`ReadyNotice`], counted from 0 over all
    /// rounds.
    pub next: u64,
}

/// A change of the process sets; all ranks must request changes in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetChange {
    /// A new set of these ranks, ascending.
    Add(Vec<Rank>),
    /// The end of a set.
    Remove(ProcessSetId),
}

/// The result of a change of the process sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetChangeResult {
    /// The set exists from here on.
    Added {
        /// Its number.
        id: ProcessSetId,
        /// Its members, ascending.
        ranks: Vec<Rank>,
    },
    /// The set does not exist any more.
    Removed(ProcessSetId),
    /// The change was refused, for this reason.
    Refused(String),
}

/// The coordinator's decisions for the members of a process set. The lists of a set are numbered
/// from 1; a rank carries them out in the order in which they arrive.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResponseList {
    /// The process set.
    pub process_set: ProcessSetId,
    /// Number of this list.
    pub sequence: u64,
    /// Cache entries to drop, before anything else is done.
    pub evicted: Vec<CacheId>,
    /// New execution parameters, if they change; they apply from the first operation of this list
    /// on. Only lists for the global set carry them, so all ranks switch between the same two
    /// operations.
    pub tuned: Option<Tuned>,
    /// What to do, in order.
    pub responses: Vec<Response>,
    /// A command about the schedule, to follow after the responses. Only lists for the global set
    /// carry one.
    pub schedule: Option<ScheduleCommand>,
    /// Results of process set changes, in order, to apply after the responses.
    pub changes: Vec<SetChangeResult>,
    /// The rank that asked for a shutdown after this list, if one did.
    pub shutdown: Option<Rank>,
}

/// Execution parameters on which all ranks must agree, and which may change between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuned {
    /// Bytes that travel before the receiver starts to work on them; from 1 to [`Tuned::LIMIT`].
    pub chunk_bytes: u64,
    /// Largest allreduce that uses the latency-optimal algorithm; up to [`Tuned::LIMIT`].
    pub small_allreduce_bytes: u64,
    /// Whether allreduce is hierarchical.
    pub hierarchical_allreduce: bool,
    /// Whether allgather is hierarchical.
    pub hierarchical_allgather: bool,
}

impl Tuned {
    /// The largest size in bytes that is accepted; it fits every machine's `usize`.
    pub const LIMIT: u64 = 1 << 30;
}

/// One decision of the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// Execute an operation, possibly on several tensors at once.
    Execute(Operation),
    /// The ranks do not agree about a tensor; it fails with this reason.
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
    /// Type of the elements of every tensor.
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
    pub tensors: Vec<TensorRef>,
}

/// One tensor of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorRef {
    /// Described by an earlier response list.
    Cached(CacheId),
    /// Described here.
    New(TensorSpec),
}

/// The agreed description of one tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// The tensor's name.
    pub name: Arc<str>,
    /// Its cache number, if it is cached.
    pub cache: Option<CacheId>,
    /// The shape; its first dimension is rank 0's where ranks may differ.
    pub shape: Shape,
    /// First dimension on every rank, where ranks may differ; else empty.
    pub first_dimensions: Vec<u64>,
}

/// A command of the coordinator about the schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleCommand {
    /// From here on operations follow this schedule, without negotiation.
    Begin(Schedule),
    /// Send no more notices for the schedule with this number. Every rank answers with a
    /// [`ScheduleHalt`].
    Halt(u64),
    /// The schedule is over: operations before `next` are executed, no others.
    End {
        /// The schedule's number.
        number: u64,
        /// The first operation that is not executed.
        next: u64,
    },
}

/// Operations that repeat in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The schedules of a job are numbered from 1.
    pub number: u64,
    /// One round.
    pub operations: Vec<Operation>,
}

/// Sent by a rank when it has all tensors of the next operation of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadyNotice {
    /// The schedule's number.
    pub schedule: u64,
    /// The operation, counted from 0 over all rounds.
    pub operation: u64,
    /// This rank's tensors, if they are small enough to be sent inside the notice.
    pub tensors: Vec<u8>,
}

/// What a control message is: its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A [`RequestList`] to the coordinator, or a [`ResponseList`] from it.
    Negotiation = 0,
    /// A [`ReadyNotice`].
    ReadyNotice = 1,
}
