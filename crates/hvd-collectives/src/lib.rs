//! Collective operations over any transport, one file per algorithm, and in [`kernel`] the
//! element-wise loops they need.
//!
//! Every algorithm takes a [`Communicator`], a group of ranks addressed by their position, and
//! plain slices of bytes; what it needs beside them, memory and thresholds, is the caller's
//! [`Workspace`]. Those that know which ranks share a host take a [`Topology`](hvd_types::Topology) and form their groups
//! themselves. All members of a group must make the same calls in the same order, with the same
//! [`Tuning`].
//!
//! Must not know: names of tensors, negotiation, logs, clocks, or how a transport was opened.

#![deny(unsafe_code)]

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod broadcast;
mod communicator;
mod error;
mod hierarchical;
pub mod kernel;
mod layout;
mod reducescatter;
mod ring_pipeline;
mod ring_schedule;
mod scratch;
mod shared;
mod tensors;
mod workspace;

pub use allgather::{allgather, allgather_in_place};
pub use allreduce::{
    Algorithm, Cost, adasum, allreduce, halving_doubling_allreduce, message_ring_allreduce,
    recursive_doubling_allreduce, ring_allreduce, shared_allreduce,
};
pub use alltoall::{alltoall, exchange_counts};
pub use barrier::barrier;
pub use broadcast::{broadcast, chain_broadcast, tree_broadcast};
pub use communicator::Communicator;
pub use error::{Error, Result};
pub use hierarchical::{hierarchical_allgather, hierarchical_allreduce};
pub use kernel::{Combine, Reduction};
pub use layout::{Parts, PartsMut, share};
pub use reducescatter::{ScatterBuffers, reducescatter};
pub use scratch::Scratch;
pub use tensors::{Tensor, TensorMemory};
pub use workspace::{Tuning, Workspace};
