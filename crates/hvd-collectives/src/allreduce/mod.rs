//! Every member's buffer becomes the reduction of all members' buffers, bit for bit the same on
//! all of them. Chooses the algorithm by whether the members see the same memory, and else by what
//! messages cost, or the size of the buffer; see there for steps and bytes.

mod adasum;
mod choice;
mod halving_doubling;
mod message_ring;
mod recursive_doubling;
mod ring;
mod shared;
mod shares;

pub use adasum::adasum;
pub use choice::{Algorithm, Cost};
pub use halving_doubling::halving_doubling_allreduce;
pub use message_ring::message_ring_allreduce;
pub use recursive_doubling::recursive_doubling_allreduce;
pub(crate) use ring::reduce_own_block;
pub use ring::ring_allreduce;
pub use shared::shared_allreduce;

use crate::{Combine, Communicator, Result, Tensor, TensorMemory, Workspace};

/// Reduces `buffer` over all members, in place, with the algorithm that suits them and its size.
pub fn allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    let memory = TensorMemory::InPlace(&mut *buffer);
    let mut tensors = [Tensor {
        memory,
        factor: 1.0,
    }];
    if shared_allreduce(comm, combine, 1.0, &mut tensors, workspace)? {
        return Ok(());
    }
    let algorithm = workspace.tuning.algorithm(comm.size(), buffer.len());
    if algorithm == Algorithm::Ring && message_ring_allreduce(comm, combine, buffer)? {
        return Ok(());
    }
    let run = match algorithm {
        Algorithm::RecursiveDoubling => recursive_doubling_allreduce,
        Algorithm::HalvingDoubling => halving_doubling_allreduce,
        Algorithm::Ring => ring_allreduce,
    };
    run(comm, combine, buffer, workspace)
}
