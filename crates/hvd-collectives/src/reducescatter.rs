//! Every member gets its part of the reduction of all members' inputs; parts may have any length.
//!
//! Ring, n - 1 steps: in step s member i sends block i - 1 - s to its successor, and adds its own
//! input to block i - 2 - s as it arrives. The last to arrive is the caller's own, which goes
//! straight to the output. With S bytes of input a member sends S less its own part, and receives
//! S less its predecessor's.
//!
//! Inputs are not changed: what is on its way lies in scratch until it is passed on. A chunk stays
//! there for [`RingSchedule::delay`] slots, so one place more than that, used in turns, is enough:
//! about one block. Members that see the same memory need no ring, see [`crate::shared`]. Each part is reduced in one order that depends on its position alone, so
//! equal inputs always give equal bits.

use crate::error::expect_length;
use crate::layout::{Layout, Parts, total_of};
use crate::ring::{RingSchedule, Slot};
use crate::{Combine, Communicator, Result, TensorMemory, Workspace, shared};

/// What a reducescatter reads and fills.
#[derive(Debug)]
pub struct ScatterBuffers<'a> {
    /// The caller's input: one part for each member, lengths equal on all members.
    pub input: Parts<'a>,
    /// The caller's part of the result.
    pub output: &'a mut [u8],
}

/// Reduces the inputs of all members and leaves the caller's part in the output.
pub fn reducescatter(
    comm: &mut Communicator<'_>,
    combine: Combine,
    buffers: ScatterBuffers<'_>,
    workspace: &mut Workspace,
) -> Result<()> {
    let ScatterBuffers { input, output } = buffers;
    check(comm, combine, input, output)?;
    if comm.size() == 1 {
        output.copy_from_slice(input.bytes);
        return Ok(());
    }
    let layout = Layout::Counts(input.counts);
    let chunk = workspace.tuning.chunk_of(combine.dtype.size());
    let memory = TensorMemory::Apart {
        input: input.bytes,
        output: &mut *output,
    };
    if shared::reduce_own_block(comm, combine, layout, memory, chunk)? {
        return Ok(());
    }
    let schedule = RingSchedule::new(layout, comm.before(1), chunk);
    let longest = input.counts.iter().copied().max().unwrap_or(0);
    let places = Places {
        delay: schedule.delay(),
        length: chunk.min(longest),
    };
    let scratch = workspace.scratch.bytes(places.bytes());
    let mut ring = Ring {
        comm,
        combine,
        input,
        output,
        places,
        scratch,
    };
    schedule
        .enumerate()
        .try_for_each(|(turn, slot)| ring.run(turn, slot))
}

fn check(comm: &Communicator<'_>, combine: Combine, input: Parts<'_>, output: &[u8]) -> Result<()> {
    let total = total_of("list of lengths to scatter", input.counts, comm.size())?;
    input
        .counts
        .iter()
        .try_for_each(|&count| combine.check(count))?;
    expect_length("input of reducescatter", total, input.bytes.len())?;
    expect_length(
        "output of reducescatter",
        input.counts[comm.index()],
        output.len(),
    )
}

/// Equal places in scratch, filled and emptied in turns.
#[derive(Debug, Clone, Copy)]
struct Places {
    delay: usize,
    length: usize,
}

impl Places {
    fn bytes(self) -> usize {
        (self.delay + 1) * self.length
    }

    /// The place for the chunk that arrives in a turn, and that of the one which leaves: it came
    /// `delay` turns ago and is thus, with one place more than that, in the place after.
    fn split(self, turn: usize, scratch: &mut [u8]) -> (&mut [u8], &[u8]) {
        let arriving = turn % (self.delay + 1);
        let leaving = (turn + 1) % (self.delay + 1);
        let (low, high) = scratch.split_at_mut(arriving.max(leaving) * self.length);
        let low = &mut low[arriving.min(leaving) * self.length..][..self.length];
        let high = &mut high[..self.length];
        if arriving < leaving {
            (low, high)
        } else {
            (high, low)
        }
    }
}

struct Ring<'a, 'b> {
    comm: &'a mut Communicator<'b>,
    combine: Combine,
    input: Parts<'a>,
    output: &'a mut [u8],
    places: Places,
    scratch: &'a mut [u8],
}

impl Ring<'_, '_> {
    fn run(&mut self, turn: usize, slot: Slot) -> Result<()> {
        let layout = Layout::Counts(self.input.counts);
        let (next, previous) = (self.comm.after(1), self.comm.before(1));
        let (first, own) = (layout.range(previous), layout.range(self.comm.index()));
        let (arriving, leaving) = self.places.split(turn, self.scratch);
        let send = slot.send.map(|range| {
            let untouched = first.contains(&range.start);
            (
                next,
                if untouched {
                    &self.input.bytes[range]
                } else {
                    &leaving[..range.len()]
                },
            )
        });
        let Some(range) = slot.recv else {
            return self.comm.exchange(send, None);
        };
        let arrived = if own.contains(&range.start) {
            &mut self.output[range.start - own.start..range.end - own.start]
        } else {
            &mut arriving[..range.len()]
        };
        self.comm.exchange(send, Some((previous, &mut *arrived)))?;
        self.combine.apply(arrived, &self.input.bytes[range])
    }
}
