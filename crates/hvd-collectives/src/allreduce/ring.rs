//! Allreduce for long buffers: a reduce-scatter and an all-gather, both round a ring.
//!
//! The buffer is divided into n blocks of nearly equal length. With n members and S bytes:
//!
//! 1. Reduce-scatter, n - 1 steps: in step s member i sends block i - 1 - s to its successor and
//!    reduces block i - 2 - s, which its predecessor sends, into its own. In the end it holds the
//!    whole reduction of block i.
//! 2. All-gather, n - 1 steps: the finished blocks go round once more.
//!
//! Each member sends 2 S (n - 1) / n bytes, the least possible, and receives as much. All steps
//! overlap, see [`crate::ring_pipeline`]: what arrives is reduced and passed on while more arrives.
//!
//! Results are the same bits everywhere because each block is reduced along one chain, from member
//! i + 1 round to member i, and then only copied.

use crate::layout::BlockLayout;
use crate::ring_pipeline::{self, BlockStream, Reducing};
use crate::{Combine, Communicator, Result, Workspace};

/// Reduces `buffer` over all members, in place, with the fewest bytes.
pub fn ring_allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    combine.check(buffer.len())?;
    if comm.size() == 1 || buffer.is_empty() {
        return Ok(());
    }
    let element_size = combine.dtype.size();
    let elements = buffer.len() / element_size;
    let layout = BlockLayout::Even {
        elements,
        element_size,
        blocks: comm.size(),
    };
    // Both halves in one go: a block is passed on as soon as it is finished.
    pipeline(comm, combine, layout, buffer, workspace, 2)
}

/// Reduces the caller's block over all members, in place. The other blocks are left with parts of
/// sums.
pub(crate) fn reduce_own_block(
    comm: &mut Communicator<'_>,
    combine: Combine,
    layout: BlockLayout<'_>,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    if comm.size() == 1 {
        return Ok(());
    }
    pipeline(comm, combine, layout, buffer, workspace, 1)
}

/// So many times round the ring, reducing in the first.
fn pipeline(
    comm: &mut Communicator<'_>,
    combine: Combine,
    layout: BlockLayout<'_>,
    buffer: &mut [u8],
    workspace: &mut Workspace,
    rounds: usize,
) -> Result<()> {
    let chunk = workspace.tuning.chunk_of(combine.dtype.size());
    let steps = comm.size() - 1;
    let stream = BlockStream {
        layout,
        first: comm.before(1),
        steps: rounds * steps,
    };
    let reducing = Reducing {
        combine,
        steps,
        scratch: workspace.scratch.bytes(chunk),
    };
    ring_pipeline::run(comm, stream, buffer, chunk, Some(reducing))
}
