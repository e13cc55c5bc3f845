//! All-gather and reduce-scatter of members that see the same memory; what other algorithms are
//! made of. With n members and S bytes:
//!
//! - All-gather: every member copies its block into its slots, chunk by chunk, and the others'
//!   blocks out of theirs. Every member writes its block and reads S. A broadcast is an all-gather
//!   in which only the root has something to give.
//! - Reduce-scatter: every member copies the blocks of the others into its slots and reduces what
//!   they have there of its own block. Every member writes and reads S (n - 1) / n.
//!
//! Chunks of all blocks take turns, one chunk of each at a time, and a member shows its next one
//! before it looks at the others' last.

use std::ops::Range;

use hvd_transport::SharedSlots;

use crate::kernel::copy;
use crate::layout::{BlockLayout, Blocks};
use crate::{Combine, Communicator, Result, TensorMemory};

/// The least that is worth a turn: a cache line, and a multiple of every element.
const GRAIN: usize = 64;

/// Copies every block of `buffer`, of which the caller's own is in its place, to all members;
/// false, and nothing is done, if these do not see the same memory.
pub(crate) fn gather(
    comm: &mut Communicator<'_>,
    layout: impl Blocks,
    buffer: &mut [u8],
    chunk: usize,
) -> Result<bool> {
    let Some(mut slots) = comm.shared_slots() else {
        return Ok(false);
    };
    let (size, index) = (slots.size(), slots.index());
    let chunk = chunk.min(slots.capacity());
    let turns = turns(layout, chunk);
    for turn in 0..=turns {
        if turn < turns {
            let own = nth_chunk(layout, index, chunk, turn);
            copy(&buffer[own.clone()], slots.put(own.len())?);
            slots.show();
        }
        let Some(last) = turn.checked_sub(1) else {
            continue;
        };
        for member in (1..size).map(|distance| (index + distance) % size) {
            let place = &mut buffer[nth_chunk(layout, member, chunk, last)];
            if !place.is_empty() {
                copy(slots.whole(member, place.len())?, place);
            }
        }
        slots.take();
    }
    Ok(true)
}

/// Reduces the caller's block over all members; false, and nothing is done, if these do not see the
/// same memory. In place, the block lies where the layout says, else it is the output.
pub(crate) fn reduce_own_block(
    comm: &mut Communicator<'_>,
    combine: Combine,
    layout: BlockLayout<'_>,
    mut memory: TensorMemory<'_>,
    chunk: usize,
) -> Result<bool> {
    let Some(mut slots) = comm.shared_slots() else {
        return Ok(false);
    };
    let room = slots.capacity() / slots.size();
    let chunk = chunk.max(GRAIN).min(room) / GRAIN * GRAIN;
    if chunk == 0 {
        return Ok(false);
    }
    let own = layout.range(slots.index());
    if let TensorMemory::Apart { input, output } = &mut memory {
        copy(&input[own], output);
    }
    let turns = turns(layout, chunk);
    for turn in 0..=turns {
        if turn < turns {
            put_others(&mut slots, layout, &memory, (chunk, turn))?;
        }
        if let Some(last) = turn.checked_sub(1) {
            reduce_chunk(&mut slots, combine, layout, &mut memory, (chunk, last))?;
        }
    }
    Ok(true)
}

/// Shows a chunk of every other member's block, each in its own place of the slot.
fn put_others(
    slots: &mut SharedSlots<'_>,
    layout: BlockLayout<'_>,
    memory: &TensorMemory<'_>,
    (chunk, turn): (usize, usize),
) -> Result<()> {
    let (size, index) = (slots.size(), slots.index());
    let values: &[u8] = match memory {
        TensorMemory::InPlace(bytes) => bytes,
        TensorMemory::Apart { input, .. } => input,
    };
    let slot = slots.put(chunk * size)?;
    for member in (0..size).filter(|&member| member != index) {
        let part = &values[nth_chunk(layout, member, chunk, turn)];
        copy(part, &mut slot[chunk * member..][..part.len()]);
    }
    slots.show();
    Ok(())
}

/// Reduces what the others show of a chunk of this member's block.
fn reduce_chunk(
    slots: &mut SharedSlots<'_>,
    combine: Combine,
    layout: BlockLayout<'_>,
    memory: &mut TensorMemory<'_>,
    (chunk, turn): (usize, usize),
) -> Result<()> {
    let (size, index) = (slots.size(), slots.index());
    let part = nth_chunk(layout, index, chunk, turn);
    let place = chunk * index..chunk * index + part.len();
    let result = match memory {
        TensorMemory::InPlace(bytes) => &mut bytes[part],
        TensorMemory::Apart { output, .. } => {
            // Behind the last chunk there is an empty one at 0.
            let start = layout.range(index).start.min(part.start);
            &mut output[part.start - start..part.end - start]
        }
    };
    let inputs = slots.shown(place)?;
    for member in (1..size).map(|distance| (index + distance) % size) {
        combine.apply(result, inputs.of(member)?)?;
    }
    slots.take();
    Ok(())
}

/// Chunks of the block that has most.
fn turns(layout: impl Blocks, chunk: usize) -> usize {
    let blocks = 0..layout.blocks();
    let chunks = blocks.map(|block| layout.chunks(block, chunk));
    chunks.max().unwrap_or(0)
}

/// A chunk of a block, counted through its pieces; empty behind the last.
fn nth_chunk(layout: impl Blocks, block: usize, chunk: usize, number: usize) -> Range<usize> {
    let mut before = number;
    for piece in (0..).map_while(|piece| layout.piece(block, piece)) {
        let chunks = piece.len().div_ceil(chunk);
        if before < chunks {
            let start = piece.start + before * chunk;
            return start..piece.end.min(start + chunk);
        }
        before -= chunks;
    }
    0..0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_counted_through_a_block() {
        let layout = BlockLayout::Counts(&[5, 0, 7]);
        assert_eq!(turns(layout, 3), 3);
        let of = |block| (0..4).map(move |number| nth_chunk(layout, block, 3, number));
        assert!(of(0).eq([0..3, 3..5, 0..0, 0..0]));
        assert!(of(1).all(|chunk| chunk.is_empty()));
        assert!(of(2).eq([5..8, 8..11, 11..12, 0..0]));
    }
}
