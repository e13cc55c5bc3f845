//! Slots in shared memory that one rank fills and several others read, and the counts by which
//! they take turns.
//!
//! Every rank of the host has [`DEPTH`] slots, used in turns. What goes through a slot is a
//! *chunk*. A pair of ranks numbers the chunks that concern both of them from 0, in the order of
//! the operations they do together; both come to the same numbers. For each ordered pair there is
//! one line that only the first writes and only the second reads:
//!
//! ```text
//! 0 shown u64 | 8 finished u64 | 16 taken u64 | 24 slot of chunk n at 24 + 4 (n % DEPTH), u32
//! ```
//!
//! `shown` counts the chunks that the second may read; `finished` those in which the first has
//! replaced its own part by the result; `taken` the chunks of the second which the first will not
//! read any more.
//!
//! - `SLOT-1` before a rank writes to a slot again, all who were shown its last chunk have taken
//!   it.
//! - `SLOT-2` of a chunk that is shown, its owner writes its own part only, until it is finished;
//!   others read everything but that part, and that part only once it is finished.
//! - `SLOT-3` counts are stored with release after the last access they are about, and loaded with
//!   acquire before the first access they allow.
//! - `SLOT-4` counts and slot numbers from a peer that cannot be are reported, not used. A peer is
//!   never more than [`DEPTH`] chunks ahead, because it has no more slots.

#![expect(unsafe_code, reason = "slots are lent as slices of shared memory")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hvd_types::Rank;

use super::ring::Corrupt;
use super::segment::LINE;
use crate::os::memory::Mapping;

/// Slots of each rank: one being filled, one being reduced and one being taken, and one in reserve
/// so that no rank waits for the slowest reader at once.
pub(super) const DEPTH: usize = 4;

/// Where the first of the slot numbers lies in a line.
const NUMBERS: usize = 24;

/// Where the slots of a segment lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotsLayout {
    pub(super) ranks: usize,
    pub(super) lines: usize,
    pub(super) slots: usize,
    /// Bytes of one slot.
    pub(super) capacity: usize,
}

impl SlotsLayout {
    /// The line that `writer` writes and `reader` reads.
    pub(super) fn line(self, writer: usize, reader: usize) -> usize {
        self.lines + (writer * self.ranks + reader) * LINE
    }

    pub(super) fn slot(self, owner: usize, slot: usize) -> usize {
        self.slots + (owner * DEPTH + slot) * self.capacity
    }
}

/// What a rank counts for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotEvent {
    Shown,
    Finished,
    Taken,
}

/// A rank of this host.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotPeer {
    pub(super) rank: Rank,
    pub(super) segment_index: usize,
}

/// What this rank knows of a peer.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    /// Chunks of the operations before the current one.
    base: u64,
    /// The peer's counts when last looked at.
    seen: [u64; 3],
}

/// One rank's slots, and its view of those of its peers. Peers are numbered by their index in the
/// segment.
#[derive(Debug)]
pub(crate) struct Slots {
    memory: Arc<Mapping>,
    layout: SlotsLayout,
    own: usize,
    pairs: Vec<Pair>,
    /// The slot that is filled next.
    next: usize,
    /// By slot: who was shown its last chunk, and what they count when they have taken it.
    readers: [Vec<(SlotPeer, u64)>; DEPTH],
}

impl Slots {
    pub(super) fn new(memory: Arc<Mapping>, layout: SlotsLayout, own: usize) -> Self {
        Self {
            memory,
            layout,
            own,
            pairs: vec![Pair::default(); layout.ranks],
            next: 0,
            readers: Default::default(),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.layout.capacity
    }

    /// An operation of `chunks` chunks with `peer` is over.
    pub(super) fn advance(&mut self, peer: usize, chunks: u64) {
        self.pairs[peer].base += chunks;
    }

    /// One of those who were shown what the next slot holds, and the count at which it has taken
    /// it; none once there are no more.
    pub(super) fn reader(&self, number: usize) -> Option<(SlotPeer, u64)> {
        self.readers[self.next].get(number).copied()
    }

    /// Takes the next slot for chunk `chunk` of the operation with `peers`.
    pub(super) fn occupy(&mut self, chunk: u64, peers: impl Iterator<Item = SlotPeer>) -> usize {
        let slot = self.next;
        let (pairs, readers) = (&self.pairs, &mut self.readers[slot]);
        readers.clear();
        readers.extend(peers.map(|peer| (peer, pairs[peer.segment_index].base + chunk + 1)));
        self.next = (slot + 1) % DEPTH;
        slot
    }

    /// Tells `peer` in which slot of this rank chunk `chunk` of the operation is.
    pub(super) fn locate(&self, peer: usize, chunk: u64, slot: usize) {
        let entry = self.entry(self.own, peer, self.pairs[peer].base + chunk);
        let number = u32::try_from(slot).unwrap_or(u32::MAX);
        self.memory.word(entry).store(number, Ordering::Relaxed);
    }

    /// Tells `peer` that `count` chunks of the operation are shown, finished or taken.
    pub(super) fn publish(&self, peer: usize, event: SlotEvent, count: u64) {
        let word = self.layout.line(self.own, peer) + 8 * event as usize;
        let value = self.pairs[peer].base + count;
        self.memory.long(word).store(value, Ordering::Release);
    }

    /// The count of all operations at which `peer` has done something to `count` chunks of this
    /// one.
    pub(super) fn target(&self, peer: usize, count: u64) -> u64 {
        self.pairs[peer].base + count
    }

    /// Whether `peer` is known to have counted up to `target`.
    pub(super) fn is_known(&self, peer: usize, event: SlotEvent, target: u64) -> bool {
        self.pairs[peer].seen[event as usize] >= target
    }

    /// Whether `peer` has counted up to `target`. `own` is how far this rank is with the operation:
    /// what it has shown, if it asks who has taken it, else what it has taken.
    pub(super) fn reached(
        &mut self,
        peer: usize,
        event: SlotEvent,
        target: u64,
        own: u64,
    ) -> Result<bool, Corrupt> {
        let word = self.layout.line(peer, self.own) + 8 * event as usize;
        let count = self.memory.long(word).load(Ordering::Acquire);
        let Pair { base, seen } = &mut self.pairs[peer];
        let seen = &mut seen[event as usize];
        if count < *seen || count > *base + own + DEPTH as u64 {
            return Err(Corrupt);
        }
        *seen = count;
        Ok(count >= target)
    }

    /// The slot of `peer` in which chunk `chunk` of the operation is; it must be shown.
    pub(super) fn slot_of(&self, peer: usize, chunk: u64) -> Result<usize, Corrupt> {
        let entry = self.entry(peer, self.own, self.pairs[peer].base + chunk);
        let slot = self.memory.word(entry).load(Ordering::Relaxed) as usize;
        if slot < DEPTH { Ok(slot) } else { Err(Corrupt) }
    }

    fn entry(&self, writer: usize, reader: usize, chunk: u64) -> usize {
        // The remainder is less than `DEPTH`.
        #[expect(clippy::cast_possible_truncation, reason = "less than the depth")]
        let number = (chunk % DEPTH as u64) as usize;
        self.layout.line(writer, reader) + NUMBERS + 4 * number
    }

    /// A part of a peer's slot, which by `SLOT-2` its owner does not write to until this rank has
    /// taken the chunk.
    pub(super) fn read(&self, peer: usize, slot: usize, part: Range<usize>) -> &[u8] {
        debug_assert!(part.end <= self.layout.capacity, "within one slot");
        let offset = self.layout.slot(peer, slot) + part.start;
        // SAFETY: the caller has waited for the count that allows reading this part (SLOT-2,
        // SLOT-3). The bytes are numbers of any value; a process that broke the rules could make
        // them wrong numbers, nothing else.
        unsafe { self.memory.bytes(offset, part.len()) }
    }

    /// A part of a slot of this rank that no other rank accesses: of the next slot once it is free
    /// (`SLOT-1`), and of a shown one this rank's own part (`SLOT-2`).
    #[expect(
        clippy::mut_from_ref,
        reason = "what peers show is read while the result is written; they never overlap (SLOT-2)"
    )]
    pub(super) fn write(&self, slot: usize, part: Range<usize>) -> &mut [u8] {
        debug_assert!(part.end <= self.layout.capacity, "within one slot");
        let offset = self.layout.slot(self.own, slot) + part.start;
        // SAFETY: peers are not in this part, see above; and this rank has one slice of its slots
        // at a time, because `SharedSlots` lends them from behind a unique borrow.
        unsafe { self.memory.bytes_mut(offset, part.len()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::os::memory;

    const LAYOUT: SlotsLayout = SlotsLayout {
        ranks: 2,
        lines: 0,
        slots: 4096,
        capacity: 128,
    };

    fn two() -> (Slots, Slots, Arc<Mapping>) {
        let file = memory::create("hvd-test", 4096 + 2 * DEPTH * 128).unwrap();
        let memory = Arc::new(Mapping::new(file.as_fd()).unwrap());
        let slots = |own| Slots::new(Arc::clone(&memory), LAYOUT, own);
        (slots(0), slots(1), memory)
    }

    fn peer(segment_index: usize) -> SlotPeer {
        let rank = Rank::from_index(segment_index);
        SlotPeer {
            rank,
            segment_index,
        }
    }

    #[test]
    fn what_is_shown_is_found() {
        let (mut one, mut two, _) = two();
        for chunk in 0..3 * DEPTH as u64 {
            assert_eq!(
                two.reached(0, SlotEvent::Shown, chunk + 1, chunk),
                Ok(false)
            );
            let slot = one.occupy(chunk, [peer(1)].into_iter());
            one.write(slot, 0..3)
                .copy_from_slice(&[u8::try_from(chunk).unwrap(); 3]);
            one.locate(1, chunk, slot);
            one.publish(1, SlotEvent::Shown, chunk + 1);
            assert_eq!(two.reached(0, SlotEvent::Shown, chunk + 1, chunk), Ok(true));
            let found = two.slot_of(0, chunk).unwrap();
            assert_eq!(two.read(0, found, 0..3)[1], u8::try_from(chunk).unwrap());
            two.publish(0, SlotEvent::Taken, chunk + 1);
            assert_eq!(
                one.reached(1, SlotEvent::Taken, chunk + 1, chunk + 1),
                Ok(true)
            );
        }
    }

    #[test]
    fn slot_1_readers_are_remembered_until_the_slot_comes_round() {
        let (mut one, _, _) = two();
        one.occupy(0, [peer(1)].into_iter());
        one.advance(1, 1);
        for _ in 1..DEPTH {
            assert!(one.reader(0).is_none());
            one.occupy(0, [].into_iter());
        }
        let (reader, target) = one.reader(0).unwrap();
        assert_eq!((reader.segment_index, target), (1, 1));
        assert!(!one.is_known(1, SlotEvent::Taken, 1));
    }

    #[test]
    fn slot_4_what_cannot_be_is_reported() {
        let (mut one, two, memory) = two();
        let line = LAYOUT.line(1, 0);
        two.publish(0, SlotEvent::Shown, 2);
        assert_eq!(one.reached(1, SlotEvent::Shown, 1, 0), Ok(true));
        for count in [1, 5, u64::MAX] {
            memory.long(line).store(count, Ordering::Relaxed);
            assert_eq!(
                one.reached(1, SlotEvent::Shown, 1, 0),
                Err(Corrupt),
                "{count}"
            );
        }
        memory.long(line + 16).store(5, Ordering::Relaxed);
        assert_eq!(one.reached(1, SlotEvent::Taken, 1, 0), Err(Corrupt));
        assert_eq!(one.reached(1, SlotEvent::Taken, 1, 1), Ok(true));
        memory.word(line + NUMBERS).store(4, Ordering::Relaxed);
        assert_eq!(one.slot_of(1, 0), Err(Corrupt));
    }
}
