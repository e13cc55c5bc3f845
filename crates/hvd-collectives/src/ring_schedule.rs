//! The order in which chunks travel round a ring; shared by every ring algorithm. Moves no bytes.
//!
//! Each member receives a stream of blocks from its predecessor and sends a stream to its
//! successor. The stream sent is: one block that the member has from the start, then, in order,
//! the blocks it receives, but the last. Blocks, or the pieces in which they lie, are cut into
//! chunks, and one [`RingStep`] is a chunk sent while another is received. A chunk is passed on as
//! soon as it has arrived, not when its block has, so that one long block among short ones flows
//! through the ring instead of hopping.
//!
//! - `RING-1` a chunk is sent in a later step than the one in which it was received: the first
//!   block accounts for at least one step of delay, and if it is empty the stream sent starts one
//!   step late.
//! - `RING-2` no step waits for itself round the ring. Chunk t is received in step t, and sent in
//!   step t, or t + 1 by members whose first block is empty. Its way over one link thus needs only
//!   earlier chunks, or the same chunk on the link before, and the latter chain ends at a member
//!   whose first block is not empty. If there is none, there is nothing to send.

use std::ops::Range;

use crate::layout::Blocks;

/// What one member does at the same time: ranges of the buffer that the layout divides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RingStep {
    /// The chunk to send.
    pub(crate) send: Option<Range<usize>>,
    /// The chunk to receive.
    pub(crate) recv: Option<Range<usize>>,
}

/// One member's steps, in order.
#[derive(Debug)]
pub(crate) struct RingSchedule<B> {
    sends: Chunks<B>,
    recvs: Chunks<B>,
    late: bool,
    delay: usize,
}

impl<B: Blocks> RingSchedule<B> {
    /// The steps of the member that starts with `first` at hand. Needs two blocks at least.
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

    /// Steps between a chunk's arrival and its departure.
    pub(crate) fn delay(&self) -> usize {
        self.delay
    }
}

impl<B: Blocks> Iterator for RingSchedule<B> {
    type Item = RingStep;

    fn next(&mut self) -> Option<RingStep> {
        let late = std::mem::take(&mut self.late);
        let send = if late { None } else { self.sends.next() };
        let recv = self.recvs.next();
        // Late and nothing to receive means that there is nothing to pass on either.
        (send.is_some() || recv.is_some()).then_some(RingStep { send, recv })
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
    use crate::layout::BlockLayout;

    fn steps(counts: &[usize], first: usize, chunk: usize) -> Vec<RingStep> {
        RingSchedule::new(BlockLayout::Counts(counts), first, chunk).collect()
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
                let sent = steps(counts, member, 2)
                    .into_iter()
                    .filter_map(|step| step.send);
                let next = steps(counts, (member + 1) % counts.len(), 2);
                let received = next.into_iter().filter_map(|step| step.recv);
                assert!(sent.eq(received), "{counts:?} from {member}");
            }
        }
    }

    #[test]
    fn ring_1_nothing_is_sent_before_it_is_there() {
        for counts in [&[5, 0, 2, 9][..], &[0, 0, 11], &[7, 0], &[1, 1, 1]] {
            for member in 0..counts.len() {
                let mut there = vec![false; counts.iter().sum()];
                there[BlockLayout::Counts(counts).range(member)].fill(true);
                for step in steps(counts, member, 3) {
                    let sent = step.send.unwrap_or(0..0);
                    assert!(
                        there[sent].iter().all(|&byte| byte),
                        "{counts:?} at {member}"
                    );
                    there[step.recv.unwrap_or(0..0)].fill(true);
                }
                assert!(there.iter().all(|&byte| byte), "{counts:?} at {member}");
            }
        }
    }

    #[test]
    fn one_long_block_flows_in_chunks() {
        let through = steps(&[0, 6, 0], 2, 2);
        let step = |send, recv| RingStep { send, recv };
        assert_eq!(
            through,
            [
                step(None, Some(0..2)),
                step(Some(0..2), Some(2..4)),
                step(Some(2..4), Some(4..6)),
                step(Some(4..6), None)
            ]
        );
    }
}
