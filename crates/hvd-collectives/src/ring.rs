//! The order in which chunks travel round a ring; shared by every ring algorithm. Moves no bytes.
//!
//! Each member receives a stream of blocks from its predecessor and sends a stream to its
//! successor. The stream sent is: one block that the member has from the start, then, in order,
//! the blocks it receives, but the last. Blocks, or the pieces in which they lie, are cut into
//! chunks, and one [`Slot`] is a chunk sent while another is received. A chunk is passed on as
//! soon as it has arrived, not when its block has, so that one long block among short ones flows
//! through the ring instead of hopping.
//!
//! - `RING-1` a chunk is sent in a later slot than the one in which it was received: the first
//!   block accounts for at least one slot of delay, and if it is empty the stream sent starts one
//!   slot late.
//! - `RING-2` no slot waits for itself round the ring. Chunk t is received in slot t, and sent in
//!   slot t, or t + 1 by members whose first block is empty. Its way over one link thus needs only
//!   earlier chunks, or the same chunk on the link before, and the latter chain ends at a member
//!   whose first block is not empty. If there is none, there is nothing to send.

use std::ops::Range;

use crate::layout::Blocks;

/// What one member does at the same time: ranges of the buffer that the layout divides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The chunk to send.
    pub(crate) send: Option<Range<usize>>,
    /// The chunk to receive.
    pub(crate) recv: Option<Range<usize>>,
}

/// One member's slots, in order.
#[derive(Debug)]
pub(crate) struct RingSchedule<B> {
    sends: Chunks<B>,
    recvs: Chunks<B>,
    late: bool,
    delay: usize,
}

impl<B: Blocks> RingSchedule<B> {
    /// The slots of the member that starts with `first` at hand. Needs two blocks at least.
    pub(crate) fn new(layout: B, first: usize, chunk: usize) -> Self {
        let at_hand = layout.chunks(first, chunk);
        let before = (first + layout.blocks() - 1) % layout.blocks();
        Self {
            sends: Chunks::new(layout, first, chunk),
            recvs: Chunks::new(layout, before, chunk),
            late: at_hand == 0,
            delay: at_hand.max(1),
        }
    }

    /// Slots between a chunk's arrival and its departure.
    pub(crate) fn delay(&self) -> usize {
        self.delay
    }
}

impl<B: Blocks> Iterator for RingSchedule<B> {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        let late = std::mem::take(&mut self.late);
        let send = if late { None } else { self.sends.next() };
        let recv = self.recvs.next();
        // Late and nothing to receive means that there is nothing to pass on either.
        (send.is_some() || recv.is_some()).then_some(Slot { send, recv })
    }
}

/// The chunks of all blocks but one, from a first block backwards round the ring.
#[derive(Debug)]
struct Chunks<B> {
    layout: B,
    chunk: usize,
    block: usize,
    blocks_left: usize,
    next_piece: usize,
    rest: Range<usize>,
}

impl<B: Blocks> Chunks<B> {
    fn new(layout: B, first: usize, chunk: usize) -> Self {
        let blocks_left = layout.blocks() - 2;
        Self {
            layout,
            chunk,
            block: first,
            blocks_left,
            next_piece: 0,
            rest: 0..0,
        }
    }
}

impl<B: Blocks> Iterator for Chunks<B> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.rest.is_empty() {
            if let Some(piece) = self.layout.piece(self.block, self.next_piece) {
                self.next_piece += 1;
                self.rest = piece;
            } else {
                self.blocks_left = self.blocks_left.checked_sub(1)?;
                self.block = (self.block + self.layout.blocks() - 1) % self.layout.blocks();
                self.next_piece = 0;
            }
        }
        let end = self.rest.end.min(self.rest.start + self.chunk);
        let chunk = self.rest.start..end;
        self.rest.start = end;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn slots(counts: &[usize], first: usize, chunk: usize) -> Vec<Slot> {
        RingSchedule::new(Layout::Counts(counts), first, chunk).collect()
    }

    #[test]
    fn what_a_member_sends_its_successor_receives() {
        for counts in [
            &[5, 0, 2, 9][..],
            &[0, 0, 11],
            &[1, 0],
            &[0, 0],
            &[4, 4, 4, 4, 4],
        ] {
            for member in 0..counts.len() {
                let sent = slots(counts, member, 2)
                    .into_iter()
                    .filter_map(|slot| slot.send);
                let next = slots(counts, (member + 1) % counts.len(), 2);
                let received = next.into_iter().filter_map(|slot| slot.recv);
                assert!(sent.eq(received), "{counts:?} from {member}");
            }
        }
    }

    #[test]
    fn ring_1_nothing_is_sent_before_it_is_there() {
        for counts in [&[5, 0, 2, 9][..], &[0, 0, 11], &[7, 0], &[1, 1, 1]] {
            for member in 0..counts.len() {
                let mut there = vec![false; counts.iter().sum()];
                there[Layout::Counts(counts).range(member)].fill(true);
                for slot in slots(counts, member, 3) {
                    let sent = slot.send.unwrap_or(0..0);
                    assert!(
                        there[sent].iter().all(|&byte| byte),
                        "{counts:?} at {member}"
                    );
                    there[slot.recv.unwrap_or(0..0)].fill(true);
                }
                assert!(there.iter().all(|&byte| byte), "{counts:?} at {member}");
            }
        }
    }

    #[test]
    fn one_long_block_flows_in_chunks() {
        let through = slots(&[0, 6, 0], 2, 2);
        let slot = |send, recv| Slot { send, recv };
        assert_eq!(
            through,
            [
                slot(None, Some(0..2)),
                slot(Some(0..2), Some(2..4)),
                slot(Some(2..4), Some(4..6)),
                slot(Some(4..6), None)
            ]
        );
    }
}
