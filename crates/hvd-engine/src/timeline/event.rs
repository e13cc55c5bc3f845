//! What can happen, and the names under which it appears in a trace. The names are Horovod's; the
//! collectives of this build carry those of its CPU backend.

use std::sync::Arc;
use std::time::Instant;

use hvd_types::{DType, OpKind, Shape};

/// One thing that happened.
#[derive(Debug)]
pub(super) enum TimelineEvent {
    /// To a tensor.
    Tensor(Instant, Arc<str>, Happening),
    /// A cycle began.
    Cycle(Instant),
}

impl TimelineEvent {
    /// The moment of it.
    pub(super) fn when(&self) -> Instant {
        match self {
            Self::Tensor(when, ..) | Self::Cycle(when) => *when,
        }
    }
}

/// What can happen to a tensor.
#[derive(Debug)]
pub(super) enum Happening {
    NegotiateStart(OpKind),
    RankReady(u32),
    NegotiateEnd,
    /// Agreed, and waiting for operations before it.
    Queued(OpKind),
    OperationStart(OpKind),
    /// An operation that is nothing but an error.
    Refused,
    ActivityStart(Activity),
    ActivityEnd,
    OperationEnd(Option<(DType, Shape)>),
}

/// A part of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The fusion buffer is made larger.
    InitFusionBuffer,
    /// Memory for the result is allocated.
    AllocateOutput,
    /// It is copied into the fusion buffer.
    MemcpyInFusionBuffer,
    /// It is copied out of the fusion buffer.
    MemcpyOutFusionBuffer,
    /// The ranks exchange data.
    Collective(OpKind),
}

impl Activity {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::InitFusionBuffer => "INIT_FUSION_BUFFER",
            Self::AllocateOutput => "ALLOCATE_OUTPUT",
            Self::MemcpyInFusionBuffer => "MEMCPY_IN_FUSION_BUFFER",
            Self::MemcpyOutFusionBuffer => "MEMCPY_OUT_FUSION_BUFFER",
            Self::Collective(OpKind::Allreduce) => "GLOO_ALLREDUCE",
            Self::Collective(OpKind::Allgather) => "GLOO_ALLGATHER",
            Self::Collective(OpKind::Broadcast) => "GLOO_BCAST",
            Self::Collective(OpKind::Reducescatter) => "GLOO_REDUCESCATTER",
            // The two that Horovod's CPU backend names after MPI.
            Self::Collective(OpKind::Alltoall) => "MPI_ALLTOALL",
            Self::Collective(OpKind::Adasum) => "MPI_ADASUM_ALLREDUCE",
            Self::Collective(kind @ (OpKind::Barrier | OpKind::Join)) => operation_label(kind),
        }
    }
}

/// An operation that waits for those before it. Not an [`Activity`]: nothing is being done.
pub(super) const QUEUE: &str = "QUEUE";

/// The name of an operation under way.
pub(super) const fn operation_label(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Allreduce => "ALLREDUCE",
        OpKind::Allgather => "ALLGATHER",
        OpKind::Broadcast => "BROADCAST",
        OpKind::Join => "JOIN",
        OpKind::Adasum => "ADASUM",
        OpKind::Alltoall => "ALLTOALL",
        OpKind::Barrier => "BARRIER",
        OpKind::Reducescatter => "REDUCESCATTER",
    }
}
