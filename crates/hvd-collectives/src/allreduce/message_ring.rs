//! The ring of [`super::ring`] for wires that move whole messages faster than pieces: the same
//! blocks, steps and bytes, and the same bits, but a step begins when the one before it has ended. What
//! arrives is reduced, or put in its place, straight from where the wire has received it.

use std::ops::Range;

use hvd_transport::{MessageExchange, MessagePair};
use hvd_types::Rank;

use crate::layout::BlockLayout;
use crate::{Combine, Communicator, Result};

/// Reduces `buffer` over all members, in place; false if their wires do not move whole messages.
pub fn message_ring_allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffer: &mut [u8],
) -> Result<bool> {
    combine.check(buffer.len())?;
    let (size, first) = (comm.size(), comm.before(1));
    let (to, from) = (comm.rank_of(comm.after(1))?, comm.rank_of(first)?);
    let Some(wire) = comm.messages() else {
        return Ok(false);
    };
    let element_size = combine.dtype.size();
    let layout = BlockLayout::Even {
        elements: buffer.len() / element_size,
        element_size,
        blocks: size,
    };
    let mut ring = MessageRing { wire, to, from };
    let mut block = first;
    for step in 0..2 * (size - 1) {
        let next = (block + size - 1) % size;
        let (sent, received) = (layout.range(block), layout.range(next));
        if step < size - 1 {
            ring.reduce(combine, buffer, sent, received)?;
        } else {
            ring.copy(buffer, sent, received)?;
        }
        block = next;
    }
    Ok(true)
}

struct MessageRing<'a> {
    wire: &'a mut dyn MessageExchange,
    to: Rank,
    from: Rank,
}

impl MessageRing<'_> {
    /// Sends one range and reduces what arrives into another.
    fn reduce(
        &mut self,
        combine: Combine,
        buffer: &mut [u8],
        sent: Range<usize>,
        received: Range<usize>,
    ) -> Result<()> {
        let mut reduced = Ok(());
        self.exchange(buffer, sent, received, |place, part| {
            if reduced.is_ok() {
                reduced = combine.apply(place, part);
            }
        })?;
        reduced
    }

    /// Sends one range and puts what arrives into another.
    fn copy(
        &mut self,
        buffer: &mut [u8],
        sent: Range<usize>,
        received: Range<usize>,
    ) -> Result<()> {
        self.exchange(buffer, sent, received, <[u8]>::copy_from_slice)
    }

    fn exchange(
        &mut self,
        buffer: &mut [u8],
        sent: Range<usize>,
        received: Range<usize>,
        mut put: impl FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let (bytes, place) = two_ranges(buffer, sent, received);
        let messages = MessagePair {
            to: self.to,
            bytes,
            from: self.from,
            length: place.len(),
        };
        let take_part = &mut |start: usize, part: &[u8]| {
            put(&mut place[start..start + part.len()], part);
        };
        Ok(self.wire.exchange_messages(messages, take_part)?)
    }
}

/// One range to read and one to write; they must not overlap.
fn two_ranges(buffer: &mut [u8], read: Range<usize>, written: Range<usize>) -> (&[u8], &mut [u8]) {
    if read.start < written.start {
        let (low, high) = buffer.split_at_mut(written.start);
        (&low[read], &mut high[..written.len()])
    } else {
        let (low, high) = buffer.split_at_mut(read.start);
        (&high[..read.len()], &mut low[written])
    }
}
