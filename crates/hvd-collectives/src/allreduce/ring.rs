//! Allreduce for long buffers: a reduce-scatter and an all-gather, both round a ring.
//!
//! The buffer is divided into n blocks of nearly equal length. With n members and S bytes:
//!
//! 1. Reduce-scatter, n - 1 steps: in step s member i sends block i - 1 - s to its successor and
//!    reduces block i - 2 - s, which its predecessor sends, into its own. In the end it holds the
//!    whole reduction of block i.
//! 2. All-gather, n - 1 steps: the finished blocks go round once more.
//!
//! Each member sends 2 S (n - 1) / n bytes, the least possible, and receives as much. Chunks are
//! received into scratch and reduced while they are still in the cache; steps overlap chunk by
//! chunk, see [`crate::ring`].
//!
//! Results are the same bits everywhere because each block is reduced along one chain, from member
//! i + 1 round to member i, and then only copied.

use crate::allgather::gather;
use crate::layout::Layout;
use crate::ring::Schedule;
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
    let layout = Layout::Even {
        elements,
        element_size,
        blocks: comm.size(),
    };
    reduce_own_block(comm, combine, layout, buffer, workspace)?;
    gather(
        comm,
        layout,
        buffer,
        workspace.tuning.chunk_of(element_size),
    )
}

/// Reduces the caller's block over all members, in place. The other blocks are left with parts of
/// sums.
pub(crate) fn reduce_own_block(
    comm: &mut Communicator<'_>,
    combine: Combine,
    layout: Layout<'_>,
    buffer: &mut [u8],
    workspace: &mut Workspace,
) -> Result<()> {
    if comm.size() == 1 {
        return Ok(());
    }
    let chunk = workspace.tuning.chunk_of(combine.dtype.size());
    let received = workspace.scratch.bytes(chunk.min(layout.range(0).len()));
    for slot in Schedule::new(layout, comm.before(1), chunk) {
        let (next, previous) = (comm.after(1), comm.before(1));
        let length = slot.recv.as_ref().map_or(0, ExactSizeIterator::len);
        let send = slot.send.map(|range| (next, &buffer[range]));
        let recv = slot
            .recv
            .as_ref()
            .map(|_| (previous, &mut received[..length]));
        comm.exchange(send, recv)?;
        if let Some(range) = slot.recv {
            combine.apply(&mut buffer[range], &received[..length])?;
        }
    }
    Ok(())
}
