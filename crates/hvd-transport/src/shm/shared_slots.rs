//! What some ranks of a host do together through their slots: each chunk is put, shown, reduced in
//! parts and taken, and every member does the same with the same chunks in the same order.
//!
//! ```text
//! put      fills the next own slot; waits until all others have taken what was in it
//! show     lets the others read it
//! parts    waits until all have shown; lends all members' values of this rank's part, and the
//!          place for the result, which is this rank's part of its own slot
//! finish   lets the others read that result
//! part     waits until a member has finished; lends its result
//! take     this rank needs nothing of the chunk any more
//! ```
//!
//! A chunk of which nothing is reduced in parts is put, shown, read with `shown` or `whole`, and
//! taken; a rank that has nothing to show puts an empty one.
//!
//! The stages work on different chunks: `put` may be [`SharedSlots::DEPTH`] chunks ahead of `take`.
//! The order is fixed by counts in here, so a caller cannot reach bytes that are not its turn's.

use std::ops::Range;

use hvd_types::Rank;

use super::ring::Corrupt;
use super::rings::Rings;
use super::slot_wait::{AwaitedCount, corrupted};
use super::slots::{self, SlotEvent, SlotPeer, Slots};
use crate::Result;
use crate::rank_context::RankContext;

/// Parts begin on multiples of this, a cache line.
const GRAIN: usize = 64;

/// The slots of some ranks of one host, for the length of one operation.
#[derive(Debug)]
pub struct SharedSlots<'a> {
    pub(super) context: &'a RankContext,
    rings: &'a mut Rings,
    /// By position.
    group: Vec<SlotPeer>,
    index: usize,
    /// Chunks of this operation that were put, shown, finished and taken.
    put: u64,
    shown: u64,
    finished: u64,
    taken: u64,
    /// By chunk, modulo the depth: its slot and its length.
    own: [(usize, usize); slots::DEPTH],
}

/// What the members have shown of a chunk, or of one part of it.
#[derive(Debug)]
pub struct Inputs<'a> {
    context: &'a RankContext,
    slots: &'a Slots,
    group: &'a [SlotPeer],
    chunk: u64,
    part: Range<usize>,
    index: usize,
    /// This rank's slot, unless it writes to it.
    own: Option<usize>,
}

impl Inputs<'_> {
    /// What a member, by its position, has shown. This rank has shown nothing of the part that it
    /// reduces itself.
    pub fn of(&self, position: usize) -> Result<&[u8]> {
        let SlotPeer {
            rank,
            segment_index,
        } = self.group[position];
        let slot = if position == self.index {
            let Some(own) = self.own else { return Ok(&[]) };
            own
        } else {
            let slot = self.slots.slot_of(segment_index, self.chunk);
            slot.map_err(|Corrupt| corrupted(self.context, rank))?
        };
        Ok(self.slots.read(segment_index, slot, self.part.clone()))
    }
}

impl<'a> SharedSlots<'a> {
    /// Chunks that may be under way at a time.
    pub const DEPTH: usize = slots::DEPTH;

    /// The slots of `members`; none if one of them is not in the segment, or there is only one.
    pub(crate) fn new(
        context: &'a RankContext,
        rings: &'a mut Rings,
        members: &[Rank],
        segment_index_of: impl Fn(Rank) -> Option<usize>,
    ) -> Option<Self> {
        let with_index = |&rank: &Rank| {
            let segment_index = segment_index_of(rank)?;
            Some(SlotPeer {
                rank,
                segment_index,
            })
        };
        let group = members.iter().map(with_index).collect::<Option<Vec<_>>>()?;
        let index = members.iter().position(|&rank| rank == context.rank)?;
        (group.len() > 1).then_some(Self {
            context,
            rings,
            group,
            index,
            put: 0,
            shown: 0,
            finished: 0,
            taken: 0,
            own: [(0, 0); slots::DEPTH],
        })
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.group.len()
    }

    /// This rank's position among the members.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The longest chunk.
    pub fn capacity(&self) -> usize {
        self.rings.part.slots.capacity()
    }

    /// The part of a chunk of `length` bytes that the member at `position` reduces.
    pub fn share(&self, length: usize, position: usize) -> Range<usize> {
        let each = length.div_ceil(self.size()).next_multiple_of(GRAIN);
        let start = (each * position).min(length);
        start..(start + each).min(length)
    }

    /// Waits for a free slot and lends the place for the next chunk.
    ///
    /// # Panics
    /// If the chunk is longer than the capacity, or more chunks than the depth are under way.
    pub fn put(&mut self, length: usize) -> Result<&mut [u8]> {
        let under_way = self.put - self.taken;
        assert!(
            under_way < slots::DEPTH as u64 && length <= self.capacity(),
            "a chunk of {length} bytes after {under_way} others"
        );
        for number in 0.. {
            let Some((peer, target)) = self.rings.part.slots.reader(number) else {
                break;
            };
            self.until(peer, SlotEvent::Taken, target)?;
        }
        let peers = self.other_positions().map(|position| self.group[position]);
        let slots = &mut self.rings.part.slots;
        let slot = slots.occupy(self.put, peers);
        self.own[number_of(self.put)] = (slot, length);
        self.put += 1;
        Ok(slots.write(slot, 0..length))
    }

    /// Lets the others read the chunk that was put.
    pub fn show(&mut self) {
        let (slot, _) = self.own[number_of(self.shown)];
        for peer in self.other_segment_indexes() {
            self.rings.part.slots.locate(peer, self.shown, slot);
        }
        self.shown += 1;
        self.publish(SlotEvent::Shown, self.shown);
    }

    /// Waits until all members have shown the next chunk to reduce. Lends the place for the
    /// result of this rank's part, and what the others have shown of it.
    pub fn parts(&mut self) -> Result<(&mut [u8], Inputs<'_>)> {
        let (slot, length) = self.own[number_of(self.finished)];
        let part = self.share(length, self.index);
        let inputs = self.inputs(self.finished, part.clone(), None)?;
        Ok((inputs.slots.write(slot, part), inputs))
    }

    /// Waits until all members have shown the next chunk to take, and lends a part of it.
    ///
    /// # Panics
    /// If the part goes beyond the capacity.
    pub fn shown(&mut self, part: Range<usize>) -> Result<Inputs<'_>> {
        assert!(part.end <= self.capacity(), "a part up to {}", part.end);
        let (slot, _) = self.own[number_of(self.taken)];
        self.inputs(self.taken, part, Some(slot))
    }

    /// Waits until one other member has shown the next chunk to take, and lends the first `length`
    /// bytes of it.
    ///
    /// # Panics
    /// If that is more than the capacity.
    pub fn whole(&mut self, position: usize, length: usize) -> Result<&[u8]> {
        assert!(length <= self.capacity(), "the first {length} bytes");
        self.lend(position, SlotEvent::Shown, 0..length)
    }

    fn inputs(&mut self, chunk: u64, part: Range<usize>, own: Option<usize>) -> Result<Inputs<'_>> {
        for position in self.other_positions() {
            self.until_done(self.group[position], SlotEvent::Shown, chunk)?;
        }
        Ok(Inputs {
            context: self.context,
            slots: &self.rings.part.slots,
            group: &self.group,
            chunk,
            part,
            index: self.index,
            own,
        })
    }

    /// Lets the others read the result of this rank's part.
    pub fn finish(&mut self) {
        self.finished += 1;
        self.publish(SlotEvent::Finished, self.finished);
    }

    /// Waits until another member has finished its part of the next chunk to take, and lends it.
    pub fn part(&mut self, position: usize) -> Result<&[u8]> {
        let (_, length) = self.own[number_of(self.taken)];
        let part = self.share(length, position);
        self.lend(position, SlotEvent::Finished, part)
    }

    fn lend(&mut self, position: usize, event: SlotEvent, part: Range<usize>) -> Result<&[u8]> {
        let (chunk, peer) = (self.taken, self.group[position]);
        self.until_done(peer, event, chunk)?;
        let slots = &self.rings.part.slots;
        let slot = slots.slot_of(peer.segment_index, chunk);
        let slot = slot.map_err(|Corrupt| corrupted(self.context, peer.rank))?;
        Ok(slots.read(peer.segment_index, slot, part))
    }

    /// This rank needs nothing of the chunk any more.
    pub fn take(&mut self) {
        self.taken += 1;
        // What is read whole has no parts to finish.
        self.finished = self.finished.max(self.taken);
        self.publish(SlotEvent::Taken, self.taken);
    }

    fn other_positions(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.index;
        (0..self.group.len()).filter(move |&position| position != own)
    }

    fn other_segment_indexes(&self) -> impl Iterator<Item = usize> + '_ {
        let positions = self.other_positions();
        positions.map(|position| self.group[position].segment_index)
    }

    fn publish(&self, event: SlotEvent, count: u64) {
        for peer in self.other_segment_indexes() {
            self.rings.part.slots.publish(peer, event, count);
            self.rings.doorbells[peer].notify();
        }
    }

    fn until_done(&mut self, peer: SlotPeer, event: SlotEvent, chunk: u64) -> Result<()> {
        let target = self.rings.part.slots.target(peer.segment_index, chunk + 1);
        self.until(peer, event, target)
    }

    /// Waits until a rank, perhaps of another group, has counted up to `target`.
    fn until(&mut self, peer: SlotPeer, event: SlotEvent, target: u64) -> Result<()> {
        if self
            .rings
            .part
            .slots
            .is_known(peer.segment_index, event, target)
        {
            return Ok(());
        }
        let own = match event {
            SlotEvent::Taken => self.shown,
            SlotEvent::Shown | SlotEvent::Finished => self.taken,
        };
        let wanted = AwaitedCount {
            peer,
            event,
            target,
            own,
        };
        wanted.wait(self.context, self.rings)
    }
}

impl Drop for SharedSlots<'_> {
    fn drop(&mut self) {
        for peer in self.other_positions().map(|position| self.group[position]) {
            self.rings
                .part
                .slots
                .advance(peer.segment_index, self.shown);
        }
    }
}

fn number_of(chunk: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "less than the depth")]
    let number = (chunk % slots::DEPTH as u64) as usize;
    number
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::super::segment::{Capacities, Segment};
    use super::super::transport::SharedMemory;
    use hvd_types::Topology;

    use super::*;
    use crate::os::memory::Mapping;
    use crate::{Abort, Transport};

    fn context(rank: u32) -> RankContext {
        RankContext {
            rank: Rank::new(rank),
            topology: Topology::new(["h"; 2]),
            progress_timeout: Duration::from_secs(10),
            abort: Abort::new(),
            has_cores: true,
        }
    }

    /// Two ranks, and the memory between them.
    fn pair() -> ([SharedMemory; 2], Mapping) {
        let capacities = Capacities {
            control: 64,
            data: 64,
            slot: 128,
        };
        let file = Segment::create(2, capacities).unwrap();
        let segment = Segment::attach(file.as_fd(), 2).unwrap();
        let ends = [0, 1].map(|rank| SharedMemory::new(&segment, context(rank)).unwrap());
        (ends, Mapping::new(file.as_fd()).unwrap())
    }

    #[test]
    fn a_chunk_goes_through_all_stages() {
        let ([mut zero, mut one], _) = pair();
        let members = [1, 0].map(Rank::new);
        let (mut one, mut zero) = (
            one.shared_slots(&members).unwrap(),
            zero.shared_slots(&members).unwrap(),
        );
        assert_eq!((one.index(), zero.index(), one.size()), (0, 1, 2));
        for turn in 0..10 {
            one.put(100).unwrap().fill(turn);
            one.show();
            zero.put(100).unwrap().fill(100);
            zero.show();
            for end in [&mut one, &mut zero] {
                let other = 1 - end.index();
                let (result, inputs) = end.parts().unwrap();
                result.copy_from_slice(inputs.of(other).unwrap());
                end.finish();
            }
            assert_eq!(one.part(1).unwrap(), [turn; 36]);
            assert_eq!(zero.part(0).unwrap(), [100; 64]);
            one.take();
            zero.take();
        }
    }

    #[test]
    fn nonsense_in_the_memory_is_an_error_that_names_the_peer() {
        let ([mut zero, mut one], memory) = pair();
        let members = [0, 1].map(Rank::new);
        let mut theirs = one.shared_slots(&members).unwrap();
        theirs.put(8).unwrap().fill(1);
        theirs.show();
        // Whatever rank 1 has stored about slots, one word after the other.
        let words: Vec<usize> = (4096..memory.length() - 8 * 128)
            .step_by(8)
            .filter(|&offset| memory.long(offset).load(Ordering::Relaxed) == 1)
            .collect();
        assert!(!words.is_empty());
        let mut own = zero.shared_slots(&members).unwrap();
        own.put(8).unwrap().fill(1);
        own.show();
        for offset in words {
            memory.long(offset).fetch_or(1 << 40, Ordering::Relaxed);
        }
        let error = own.parts().unwrap_err().to_string();
        assert_eq!(
            error,
            "rank 1 on host `h` has corrupted the memory it shares with this rank"
        );
    }

    #[test]
    fn strangers_have_no_shared_slots() {
        let ([mut zero, _], _) = pair();
        assert!(zero.shared_slots(&[Rank::new(0)]).is_none(), "alone");
        assert!(zero.shared_slots(&[Rank::new(1)]).is_none(), "not a member");
    }
}
