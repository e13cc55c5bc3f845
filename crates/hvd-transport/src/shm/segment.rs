//! The shared memory of one host: where everything lies, and who may use which part. Ranks are
//! numbered by their order on the host.
//!
//! ```text
//! 0      magic u64 | version u32 | ranks u32 | control capacity u64 | data capacity u64
//!        bytes of a slot u64
//! 4096   one line of 128 bytes per rank:      doorbell (see doorbell.rs) | claimed u32 at 64
//!        two lines per ring:                  head u64 | tail u64 at 128
//!        one line per writer and reader:      what the slots hold (see slots.rs)
//!        the rings' bytes: control, then data, each on its own pages
//!        the slots, DEPTH per rank
//! ring number = (writer * ranks + reader) * 2 + lane
//! ```
//!
//! - `SEG-1` a segment whose header or size does not fit is refused on attaching.
//! - `SEG-2` a rank's part can be claimed once, so each ring has one writer and one reader.
//!
//! Memory that was never written costs nothing, so rings between ranks that never talk are free.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hvd_types::Rank;

use super::doorbell::Doorbell;
use super::ring::{Consumer, Producer, RingLayout};
use super::slots::{DEPTH, Slots, SlotsLayout};
use crate::os::event::Flag;
use crate::os::memory::{self, Mapping};
use crate::{Error, Lane, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"hvd-shm\0");
const VERSION: u32 = 2;
const PAGE: usize = 4096;
/// Two cache lines, because processors fetch neighbouring lines in pairs.
pub(super) const LINE: usize = 128;
const CLAIMED: usize = 64;

/// Sizes of the rings and slots, powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacities {
    pub(crate) control: usize,
    pub(crate) data: usize,
    pub(crate) slot: usize,
}

impl Capacities {
    /// What suits a host with so many ranks: 64 KiB, 512 KiB and 1 MiB; less for the data of very
    /// many, so that an exchange of all with all stays within 256 MiB, and so do all slots.
    pub(crate) fn for_ranks(ranks: usize) -> Self {
        const CONTROL: usize = 64 * 1024;
        const DATA: usize = 512 * 1024;
        const SLOT: usize = 1024 * 1024;
        let share = (256 * 1024 * 1024 / (ranks * ranks).max(1)).max(1);
        let data = (1 << share.ilog2()).clamp(CONTROL, DATA);
        let share = (256 * 1024 * 1024 / (ranks * DEPTH).max(1)).max(1);
        let slot = (1 << share.ilog2()).clamp(CONTROL, SLOT);
        Self {
            control: CONTROL,
            data,
            slot,
        }
    }

    fn of(self, lane: Lane) -> usize {
        match lane {
            Lane::Control => self.control,
            Lane::Data => self.data,
        }
    }

    fn are_valid(self) -> bool {
        [self.control, self.data, self.slot]
            .iter()
            .all(|size| size.is_power_of_two() && *size <= 1 << 40)
            && self.slot >= LINE
    }
}

/// Offsets of the parts.
#[derive(Debug, Clone, Copy)]
struct SegmentLayout {
    ranks: usize,
    capacities: Capacities,
    indexes: usize,
    lines: usize,
    control: usize,
    data: usize,
    slots: usize,
    total: usize,
}

impl SegmentLayout {
    /// None if the sizes are senseless.
    fn new(ranks: usize, capacities: Capacities) -> Option<Self> {
        let pairs = ranks.checked_mul(ranks)?;
        let indexes = PAGE.checked_add(ranks.checked_mul(LINE)?)?;
        let lines = indexes.checked_add(pairs.checked_mul(2 * 2 * LINE)?)?;
        let control = lines
            .checked_add(pairs.checked_mul(LINE)?)?
            .checked_next_multiple_of(PAGE)?;
        let data = control
            .checked_add(pairs.checked_mul(capacities.control)?)?
            .checked_next_multiple_of(PAGE)?;
        let slots = data
            .checked_add(pairs.checked_mul(capacities.data)?)?
            .checked_next_multiple_of(PAGE)?;
        let total = ranks
            .checked_mul(DEPTH)?
            .checked_mul(capacities.slot)?
            .checked_add(slots)?;
        let valid = ranks > 0 && capacities.are_valid();
        valid.then_some(Self {
            ranks,
            capacities,
            indexes,
            lines,
            control,
            data,
            slots,
            total,
        })
    }

    fn doorbell(rank: Rank) -> usize {
        PAGE + rank.index() * LINE
    }

    fn ring(self, writer: Rank, reader: Rank, lane: Lane) -> RingLayout {
        let pair = writer.index() * self.ranks + reader.index();
        let bytes = match lane {
            Lane::Control => self.control + pair * self.capacities.control,
            Lane::Data => self.data + pair * self.capacities.data,
        };
        let head = self.indexes + (pair * 2 + lane as usize) * 2 * LINE;
        RingLayout {
            head,
            tail: head + LINE,
            bytes,
            capacity: self.capacities.of(lane),
        }
    }

    fn slots(self) -> SlotsLayout {
        SlotsLayout {
            ranks: self.ranks,
            lines: self.lines,
            slots: self.slots,
            capacity: self.capacities.slot,
        }
    }
}

/// A mapped segment.
#[derive(Debug)]
pub(crate) struct Segment {
    memory: Arc<Mapping>,
    layout: SegmentLayout,
}

impl Segment {
    /// Creates a segment and returns the file to hand to the other ranks.
    pub(crate) fn create(ranks: usize, capacities: Capacities) -> Result<OwnedFd> {
        let layout = SegmentLayout::new(ranks, capacities).ok_or_else(senseless)?;
        let doing = "creating shared memory";
        let file = memory::create("horovod", layout.total).map_err(Error::io(doing))?;
        let memory = Mapping::new(file.as_fd()).map_err(Error::io(doing))?;
        let Some(number) = u32::try_from(ranks).ok() else {
            return Err(senseless());
        };
        memory.word(8).store(VERSION, Ordering::Relaxed);
        memory.word(12).store(number, Ordering::Relaxed);
        memory
            .long(16)
            .store(capacities.control as u64, Ordering::Relaxed);
        memory
            .long(24)
            .store(capacities.data as u64, Ordering::Relaxed);
        memory
            .long(32)
            .store(capacities.slot as u64, Ordering::Relaxed);
        memory.long(0).store(MAGIC, Ordering::Release);
        Ok(file)
    }

    /// Maps a segment that was made for `ranks` ranks (`SEG-1`).
    pub(crate) fn attach(file: BorrowedFd<'_>, ranks: usize) -> Result<Self> {
        let memory = Mapping::new(file).map_err(Error::io("mapping shared memory"))?;
        if memory.length() < PAGE || memory.long(0).load(Ordering::Acquire) != MAGIC {
            return Err(senseless());
        }
        let number = |offset: usize| usize::try_from(memory.long(offset).load(Ordering::Relaxed));
        let (Ok(control), Ok(data), Ok(slot)) = (number(16), number(24), number(32)) else {
            return Err(senseless());
        };
        let capacities = Capacities {
            control,
            data,
            slot,
        };
        let layout = SegmentLayout::new(ranks, capacities).ok_or_else(senseless)?;
        let fits = memory.word(8).load(Ordering::Relaxed) == VERSION
            && memory.word(12).load(Ordering::Relaxed) as usize == ranks
            && memory.length() == layout.total;
        if !fits {
            return Err(senseless());
        }
        Ok(Self {
            memory: Arc::new(memory),
            layout,
        })
    }

    pub(crate) fn ranks(&self) -> usize {
        self.layout.ranks
    }

    /// Takes the part of `rank`, once per segment (`SEG-2`).
    pub(crate) fn claim(&self, rank: Rank) -> Result<SegmentPart> {
        let claimed = self.memory.word(SegmentLayout::doorbell(rank) + CLAIMED);
        if claimed.swap(1, Ordering::AcqRel) != 0 {
            return Err(Error::Bootstrap(format!(
                "two processes have attached to the shared memory of this host as its rank {rank}"
            )));
        }
        let producers = self.rings(|peer, lane| {
            Producer::new(Arc::clone(&self.memory), self.layout.ring(rank, peer, lane))
        });
        let consumers = self.rings(|peer, lane| {
            Consumer::new(Arc::clone(&self.memory), self.layout.ring(peer, rank, lane))
        });
        let slots = Slots::new(Arc::clone(&self.memory), self.layout.slots(), rank.index());
        Ok(SegmentPart {
            producers,
            consumers,
            slots,
        })
    }

    /// Every rank's doorbell, with its flag if there are any.
    pub(crate) fn doorbells(&self, flags: &[Arc<Flag>]) -> Vec<Doorbell> {
        (0..self.ranks())
            .map(|index| {
                let offset = SegmentLayout::doorbell(Rank::from_index(index));
                Doorbell::new(Arc::clone(&self.memory), offset, flags.get(index).cloned())
            })
            .collect()
    }

    fn rings<T>(&self, make: impl Fn(Rank, Lane) -> T) -> Vec<[T; 2]> {
        (0..self.ranks())
            .map(Rank::from_index)
            .map(|peer| Lane::ALL.map(|lane| make(peer, lane)))
            .collect()
    }
}

/// One rank's ends of its rings, by peer and lane, and its view of the slots of all ranks.
#[derive(Debug)]
pub(crate) struct SegmentPart {
    pub(crate) producers: Vec<[Producer; 2]>,
    pub(crate) consumers: Vec<[Consumer; 2]>,
    pub(crate) slots: Slots,
}

fn senseless() -> Error {
    Error::Bootstrap("the shared memory was not made by this release for this job".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Capacities = Capacities {
        control: 64,
        data: 256,
        slot: 512,
    };

    #[test]
    fn areas_do_not_overlap() {
        let layout = SegmentLayout::new(3, SMALL).unwrap();
        let mut areas = vec![(0, PAGE)];
        let slots = layout.slots();
        for writer in (0..3).map(Rank::new) {
            areas.push((SegmentLayout::doorbell(writer), LINE));
            areas.extend((0..DEPTH).map(|slot| (slots.slot(writer.index(), slot), 512)));
            areas.extend((0..3).map(|reader| (slots.line(writer.index(), reader), LINE)));
            for reader in (0..3).map(Rank::new) {
                for lane in Lane::ALL {
                    let ring = layout.ring(writer, reader, lane);
                    areas.push((ring.head, LINE));
                    areas.push((ring.tail, LINE));
                    areas.push((ring.bytes, ring.capacity));
                }
            }
        }
        areas.sort_unstable();
        assert!(
            areas.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0),
            "{areas:?}"
        );
        let (start, length) = areas.pop().unwrap();
        assert!(start + length <= layout.total);
    }

    #[test]
    fn seg_1_what_does_not_fit_is_refused() {
        let file = Segment::create(2, SMALL).unwrap();
        assert!(Segment::attach(file.as_fd(), 2).is_ok());
        assert!(
            Segment::attach(file.as_fd(), 3).is_err(),
            "another number of ranks"
        );

        let memory = Mapping::new(file.as_fd()).unwrap();
        for (offset, bad) in [
            (8, 9),
            (12, 0),
            (16, 63),
            (24, 8192),
            (28, 1),
            (32, 64),
            (0, 0),
        ] {
            let good = memory.word(offset).swap(bad, Ordering::Relaxed);
            assert!(
                Segment::attach(file.as_fd(), 2).is_err(),
                "{bad} at {offset}"
            );
            memory.word(offset).store(good, Ordering::Relaxed);
        }
        let empty = memory::create("hvd-test", 64).unwrap();
        assert!(Segment::attach(empty.as_fd(), 2).is_err());
    }

    #[test]
    fn seg_2_a_part_is_claimed_once() {
        let file = Segment::create(2, SMALL).unwrap();
        let segment = Segment::attach(file.as_fd(), 2).unwrap();
        segment.claim(Rank::new(1)).unwrap();
        segment.claim(Rank::new(0)).unwrap();
        let error = segment.claim(Rank::new(1)).unwrap_err().to_string();
        assert!(error.contains("as its rank 1"), "{error}");
    }

    #[test]
    fn many_ranks_get_smaller_rings() {
        for (ranks, data, slot) in [
            (1, 512, 1024),
            (8, 512, 1024),
            (22, 512, 1024),
            (32, 256, 1024),
            (64, 64, 1024),
            (100, 64, 512),
            (1000, 64, 64),
        ] {
            let capacities = Capacities::for_ranks(ranks);
            assert_eq!(capacities.data, data * 1024, "{ranks}");
            assert_eq!(capacities.slot, slot * 1024, "{ranks}");
            assert!(SegmentLayout::new(ranks, Capacities::for_ranks(ranks)).is_some());
        }
    }
}
