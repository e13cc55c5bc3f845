//! Every member's buffer becomes the reduction of all members' buffers, bit for bit the same on
//! all of them. Chooses the algorithm by the size of the buffer; see there for steps and bytes.

mod adasum;
mod recursive_doubling;
mod ring;
mod shares;

pub use adasum::adasum;
pub use recursive_doubling::recursive_doubling_allreduce;
pub(crate) use ring::reduce_own_block;
pub use ring::ring_allreduce;

use crate::{Combine, Communicator, Result, Workspace};

/// Reduces `buffer` over all members, in place, with the algorithm that suits its size.
pub fn allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    if buffer.len() <= workspace.tuning.small_allreduce_bytes {
        recursive_doubling_allreduce(comm, combine, buffer, workspace)
    } else {
        ring_allreduce(comm, combine, buffer, workspace)
    }
}
