//! A pipelined ring: bytes are forwarded as soon as they are final. Shared by the ring algorithms that
//! work in place. Does not know the sizes at which the algorithm changes.
//!
//! Each member receives a stream of blocks from its predecessor and sends a stream to its
//! successor. The stream sent is one block that the member has from the start, and then, byte for
//! byte, what it has received, reduced into its own bytes if the step is one that reduces.
//!
//! - `PIPE-1` a byte is sent once it is final on this member, and as soon as the wire takes it:
//!   what may be sent is the first block and what was received and reduced, less what was sent.
//!   The two directions wait for nothing else, least of all for each other, so both stay full
//!   while a member is late with its reduction.
//! - `PIPE-2` what is to be reduced is received into scratch of one chunk and reduced at once, as
//!   far as whole elements go, while it is in the cache. What is only passed on is received where
//!   it belongs.
//! - `PIPE-3` bytes that are received where they belong never overwrite any that are yet to be
//!   sent: a finished byte can only arrive after this member's contribution to it has left.

use std::ops::Range;
use std::time::Instant;

use hvd_transport::{Interest, Lane, Transport, Wake};
use hvd_types::Rank;

use crate::layout::Blocks;
use crate::{Combine, Communicator, Result};

/// Where a member begins, and how far the blocks go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockStream<B> {
    /// Where blocks lie.
    pub(crate) layout: B,
    /// The block that the member has from the start.
    pub(crate) first: usize,
    /// How many blocks the member sends, and receives.
    pub(crate) steps: usize,
}

/// What happens to blocks as they arrive: so many are reduced, the others stay as they are.
#[derive(Debug)]
pub(crate) struct Reducing<'a> {
    pub(crate) combine: Combine,
    pub(crate) steps: usize,
    /// Whole elements, one at least.
    pub(crate) scratch: &'a mut [u8],
}

/// Sends and receives along a stream; the members' streams must fit together. `most` is the
/// largest number of bytes moved at a time.
pub(crate) fn run<B: Blocks>(
    comm: &mut Communicator<'_>,
    stream: BlockStream<B>,
    buffer: &mut [u8],
    most: usize,
    reducing: Option<Reducing<'_>>,
) -> Result<()> {
    let (to, from) = (comm.rank_of(comm.after(1))?, comm.rank_of(comm.before(1))?);
    let BlockStream {
        layout,
        first,
        steps,
    } = stream;
    let sends = Runs::new(layout, first, steps);
    let before = (first + layout.blocks() - 1) % layout.blocks();
    let pipeline = RingPipeline {
        transport: comm.transport(),
        to,
        from,
        at_hand: layout.bytes(first),
        sends,
        recvs: Runs::new(layout, before, steps),
        buffer,
        most,
        reducing,
        held: 0,
    };
    pipeline.run()
}

struct RingPipeline<'a, B> {
    transport: &'a mut dyn Transport,
    to: Rank,
    from: Rank,
    sends: Runs<B>,
    recvs: Runs<B>,
    buffer: &'a mut [u8],
    most: usize,
    reducing: Option<Reducing<'a>>,
    /// Bytes that may be sent (`PIPE-1`).
    at_hand: usize,
    /// Bytes in scratch: less than an element between two calls.
    held: usize,
}

impl<B: Blocks> RingPipeline<'_, B> {
    fn run(mut self) -> Result<()> {
        let mut give_up = None;
        loop {
            let moved = self.push()? + self.pull()?;
            let send = (!self.sends.are_over()).then_some(self.to);
            let recv = (!self.recvs.are_over()).then_some(self.from);
            if send.is_none() && recv.is_none() {
                return Ok(self.transport.flush()?);
            }
            if moved > 0 {
                give_up = None;
                continue;
            }
            let send = send.filter(|_| self.at_hand > 0);
            let timeout = self.transport.progress_timeout();
            let end = *give_up.get_or_insert_with(|| Instant::now() + timeout);
            let interest = Interest::Data { send, recv };
            if self.transport.wait(interest, Some(end))? == Wake::TimedOut {
                let peer = recv.or(send).unwrap_or(self.from);
                return Err(self.transport.stalled(peer).into());
            }
        }
    }

    /// Sends what may be sent and the wire takes.
    fn push(&mut self) -> Result<usize> {
        let run = self.sends.run(self.at_hand.min(self.most));
        if run.is_empty() {
            return Ok(0);
        }
        let sent = self
            .transport
            .try_send(self.to, Lane::Data, &self.buffer[run])?;
        self.sends.advance(sent);
        self.at_hand -= sent;
        Ok(sent)
    }

    /// Receives what has arrived.
    fn pull(&mut self) -> Result<usize> {
        if self.recvs.are_over() {
            return Ok(0);
        }
        let step = self.recvs.step;
        let reduced = |reducing: &&mut Reducing<'_>| step < reducing.steps;
        if let Some(reducing) = self.reducing.as_mut().filter(reduced) {
            let run = self.recvs.run(reducing.scratch.len());
            let landing = &mut reducing.scratch[self.held..run.len()];
            let received = self.transport.try_recv(self.from, Lane::Data, landing)?;
            self.held += received;
            let whole = self.held - self.held % reducing.combine.dtype.size();
            let target = &mut self.buffer[run.start..run.start + whole];
            let combine = reducing.combine;
            combine.apply(target, &reducing.scratch[..whole])?;
            reducing.scratch.copy_within(whole..self.held, 0);
            self.held -= whole;
            self.arrived(whole);
            return Ok(received);
        }
        let run = self.recvs.run(self.most);
        let landing = &mut self.buffer[run];
        let received = self.transport.try_recv(self.from, Lane::Data, landing)?;
        self.arrived(received);
        Ok(received)
    }

    fn arrived(&mut self, bytes: usize) {
        self.recvs.advance(bytes);
        self.at_hand += bytes;
    }
}

/// Neighbouring bytes of the blocks of a stream, from a first block backwards round the ring.
#[derive(Debug)]
struct Runs<B> {
    layout: B,
    block: usize,
    /// How many blocks are over.
    step: usize,
    steps: usize,
    next_piece: usize,
    rest: Range<usize>,
}

impl<B: Blocks> Runs<B> {
    fn new(layout: B, block: usize, steps: usize) -> Self {
        let mut runs = Self {
            layout,
            block,
            step: 0,
            steps,
            next_piece: 0,
            rest: 0..0,
        };
        runs.find_rest();
        runs
    }

    fn are_over(&self) -> bool {
        self.step == self.steps
    }

    /// At most so many of the next bytes.
    fn run(&self, most: usize) -> Range<usize> {
        let Range { start, end } = self.rest;
        start..end.min(start.saturating_add(most))
    }

    /// So many bytes, of the run at most, have been dealt with.
    fn advance(&mut self, bytes: usize) {
        self.rest.start += bytes;
        self.find_rest();
    }

    fn find_rest(&mut self) {
        while self.rest.is_empty() && !self.are_over() {
            if let Some(piece) = self.layout.piece(self.block, self.next_piece) {
                self.next_piece += 1;
                self.rest = piece;
            } else {
                self.step += 1;
                self.block = (self.block + self.layout.blocks() - 1) % self.layout.blocks();
                self.next_piece = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::BlockLayout;

    fn stream(counts: &[usize], first: usize, steps: usize, most: usize) -> Vec<Range<usize>> {
        let mut runs = Runs::new(BlockLayout::Counts(counts), first, steps);
        let mut stream = Vec::new();
        while !runs.are_over() {
            let run = runs.run(most);
            runs.advance(run.len());
            stream.extend((!run.is_empty()).then_some(run));
        }
        stream
    }

    #[test]
    fn blocks_come_backwards_round_the_ring_in_runs() {
        assert_eq!(stream(&[5, 0, 3], 2, 4, 9), [5..8, 0..5, 5..8]);
        assert_eq!(stream(&[5, 0, 3], 0, 2, 3), [0..3, 3..5, 5..8]);
        assert!(stream(&[0, 0], 1, 2, 3).is_empty());
    }

    #[test]
    fn what_a_member_sends_its_successor_receives() {
        for counts in [&[5, 0, 2, 9][..], &[0, 0, 11], &[1, 0], &[4, 4, 4, 4, 4]] {
            let blocks = counts.len();
            for member in 0..blocks {
                let next = (member + 1) % blocks;
                let steps = 2 * (blocks - 1);
                let sent = stream(counts, member, steps, 2);
                // What the successor receives begins with the block before its first.
                let received = stream(counts, (next + blocks - 1) % blocks, steps, 2);
                assert_eq!(sent, received, "{counts:?} from {member}");
            }
        }
    }
}
