//! Every member gets all members' parts, in order of position; parts may have any length.
//!
//! Ring, n - 1 steps: in step s member i passes block i - s on to its successor and receives block
//! i - 1 - s, straight into its place. Steps overlap, see [`crate::ring_pipeline`], so that a part much longer than the others costs its length once and not once per member. With S bytes
//! in all parts together, a member sends S less its successor's part, and receives S less its own.
//! Members that see the same memory need no ring, see [`crate::shared`].

use crate::error::expect_length;
use crate::layout::{BlockLayout, Blocks, PartsMut, total_of};
use crate::ring_pipeline::{self, BlockStream};
use crate::{Communicator, Result, Tuning, shared};

/// Copies the caller's part to its place in `output` and gathers all others there.
pub fn allgather(
    comm: &mut Communicator<'_>,
    own: &[u8],
    output: PartsMut<'_>,
    tuning: &Tuning,
) -> Result<()> {
    let PartsMut { bytes, counts } = output;
    let layout = check(comm, counts, bytes)?;
    let place = layout.range(comm.index());
    expect_length("part to gather", place.len(), own.len())?;
    bytes[place].copy_from_slice(own);
    gather_shared_or_ring(comm, layout, bytes, tuning)
}

/// Gathers all parts in `output`, in which the caller's own is already in its place.
pub fn allgather_in_place(
    comm: &mut Communicator<'_>,
    output: PartsMut<'_>,
    tuning: &Tuning,
) -> Result<()> {
    let PartsMut { bytes, counts } = output;
    let layout = check(comm, counts, bytes)?;
    gather_shared_or_ring(comm, layout, bytes, tuning)
}

/// Gathers through the memory that the members share, or round the ring.
pub(crate) fn gather_shared_or_ring(
    comm: &mut Communicator<'_>,
    layout: impl Blocks,
    buffer: &mut [u8],
    tuning: &Tuning,
) -> Result<()> {
    let chunk = tuning.chunk_of(1);
    if shared::gather(comm, layout, buffer, chunk)? {
        return Ok(());
    }
    gather(comm, layout, buffer, chunk)
}

fn check<'a>(
    comm: &Communicator<'_>,
    counts: &'a [usize],
    bytes: &[u8],
) -> Result<BlockLayout<'a>> {
    let total = total_of("list of gathered lengths", counts, comm.size())?;
    expect_length("output of allgather", total, bytes.len())?;
    Ok(BlockLayout::Counts(counts))
}

/// Sends every block of `buffer` round the ring; the caller's own is in its place.
pub(crate) fn gather(
    comm: &mut Communicator<'_>,
    layout: impl Blocks,
    buffer: &mut [u8],
    chunk: usize,
) -> Result<()> {
    if comm.size() == 1 {
        return Ok(());
    }
    let stream = BlockStream {
        layout,
        first: comm.index(),
        steps: comm.size() - 1,
    };
    ring_pipeline::run(comm, stream, buffer, chunk, None)
}
