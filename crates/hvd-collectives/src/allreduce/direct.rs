//! Allreduce of one large tensor, read straight out of the members' own memory: nothing is copied
//! into slots first. Needs a system that lets the members read each other's memory.
//!
//! 1. Every member shows a card: its process, where its tensor and its result lie, and some random
//!    numbers. The others read the same card out of its memory, and the ends of the tensors. The
//!    members agree: if a single one could not, none goes on, and nothing has been touched.
//! 2. The tensor is cut into chunks, and each chunk into one share per member. A member reduces its
//!    share, block by block, from everybody's tensor into its own result, and counts the chunk.
//! 3. When all have counted a chunk, a member reads the other shares out of the others' results.
//!    Meanwhile the next chunk is reduced, so a member that is late holds up the others a chunk
//!    later only.
//! 4. Nobody returns before everybody has read everything.
//!
//! With n members and L bytes a member reads L (n - 1) / n twice.
//!
//! - `DIRECT-1` a tensor that is replaced by its result is not written to where others still read
//!   it: a member writes to its own share, which it alone reduces, and to the other shares of a
//!   chunk after all have counted it.
//! - `DIRECT-2` results are those of `shared_allreduce`, bit for bit: the values of an element are
//!   reduced in the order of the members, each scaled first.
//! - `DIRECT-3` nothing that a card says is followed except by asking the system, and no length is
//!   taken from it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::process;
use std::slice;

use hvd_transport::{Place, SharedSlots};

use super::shared::{GRAIN, check, chunk_bytes, scaled};
use crate::kernel::{copy, scale};
use crate::{Combine, Communicator, Result, Tensor, Workspace};

/// Blocks of one share of a chunk: long enough that the members seldom have to meet, short enough
/// that the result is still in the cache when the others read it.
const BLOCKS: usize = 4;

/// Reduces one tensor over all members, and multiplies the result by `factor`, if the members see
/// the same memory and may read each other's; else returns false, on all of them, and has done
/// nothing. Every member must give as many bytes.
pub fn direct_allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    factor: f64,
    tensor: &mut Tensor<'_>,
    workspace: &mut Workspace,
) -> Result<bool> {
    let Some(mut slots) = comm.shared_slots() else {
        return Ok(false);
    };
    check(combine, factor, slice::from_mut(tensor))?;
    if slots.capacity() < Card::BYTES {
        return Ok(false);
    }
    let Some(cards) = introduce(&mut slots, combine, tensor)? else {
        return Ok(false);
    };
    let block = (workspace.tuning.chunk_bytes / GRAIN).max(1) * GRAIN;
    let (sum, rest) = workspace.scratch.bytes(3 * block).split_at_mut(block);
    let (other, own) = rest.split_at_mut(block);
    let share = block.saturating_mul(BLOCKS);
    let chunk = chunk_bytes(tensor.len().max(1), share.saturating_mul(slots.size()));
    let operation = Operation {
        index: slots.index(),
        size: slots.size(),
        slots,
        combine,
        factor,
        tensor,
        cards,
        scratch: Blocks { sum, other, own },
    };
    operation.run(chunk)?;
    Ok(true)
}

/// What a member tells the others of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Card {
    /// Where the card itself lies.
    own: Place,
    input: u64,
    output: u64,
    length: u64,
    factor: f64,
    /// Nothing else in the memory of a process looks like this by accident.
    random: [u64; 2],
}

impl Card {
    const BYTES: usize = 64;

    /// The card of a tensor, in memory that the others are to read.
    fn of(tensor: &mut Tensor<'_>, memory: &mut [u8; Self::BYTES]) -> Self {
        // Others read by these addresses, so what is written there must really be in memory.
        let address = |pointer: *const u8| pointer.expose_provenance() as u64;
        let card = Self {
            own: Place {
                process: process::id(),
                address: address(memory.as_ptr()),
            },
            input: address(tensor.input().as_ptr()),
            output: address(tensor.output().as_mut_ptr()),
            length: tensor.len() as u64,
            factor: tensor.factor,
            random: [(); 2].map(|()| RandomState::new().build_hasher().finish()),
        };
        memory.copy_from_slice(bytemuck::cast_slice(&card.words()));
        card
    }

    fn words(&self) -> [u64; 8] {
        let Place { process, address } = self.own;
        let factor = self.factor.to_bits();
        let [one, two] = self.random;
        let process = u64::from(process);
        [
            process,
            address,
            self.input,
            self.output,
            self.length,
            factor,
            one,
            two,
        ]
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let words: [u64; 8] = bytemuck::try_pod_read_unaligned(bytes).ok()?;
        let [process, address, input, output, length, factor, one, two] = words;
        let process = u32::try_from(process).ok()?;
        Some(Self {
            own: Place { process, address },
            input,
            output,
            length,
            factor: f64::from_bits(factor),
            random: [one, two],
        })
    }

    fn input(&self) -> Place {
        let address = self.input;
        Place {
            address,
            ..self.own
        }
    }

    fn output(&self) -> Place {
        let address = self.output;
        Place {
            address,
            ..self.own
        }
    }

    /// Whether this is another member's card of as many bytes, and its memory can be read. In
    /// another container a process has another number; memory of devices cannot be read.
    fn is_usable(&self, combine: Combine, length: usize) -> bool {
        let mut seen = [0; Self::BYTES];
        let ends = [self.input(), self.output()]
            .into_iter()
            .flat_map(|place| [place, place.after(length.saturating_sub(1))]);
        self.length == length as u64
            && scale(combine.dtype, self.factor, &mut []).is_ok()
            && self.own.try_read(&mut seen)
            && seen == *bytemuck::cast_slice::<_, u8>(&self.words())
            && (length == 0 || ends.into_iter().all(|place| place.try_read(&mut [0])))
    }
}

/// Shows everybody's card to everybody; none if somebody cannot read somebody's memory.
fn introduce(
    slots: &mut SharedSlots<'_>,
    combine: Combine,
    tensor: &mut Tensor<'_>,
) -> Result<Option<Vec<Card>>> {
    let mut memory = Box::new([0; Card::BYTES]);
    let own = Card::of(tensor, &mut memory);
    slots.put(Card::BYTES)?.copy_from_slice(&*memory);
    slots.show();
    let (index, size) = (slots.index(), slots.size());
    let mut cards = Vec::with_capacity(size);
    let shown = slots.shown(0..Card::BYTES)?;
    for member in 0..size {
        let card = match Card::decode(shown.of(member)?) {
            _ if member == index => Some(own),
            card => card.filter(|card| card.is_usable(combine, tensor.len())),
        };
        cards.extend(card);
    }
    slots.take();
    let all = cards.len() == size;
    let agreed = agree(slots, all)?;
    // The others have read it.
    drop(memory);
    Ok(agreed.then_some(cards))
}

/// Whether every member says so.
fn agree(slots: &mut SharedSlots<'_>, own: bool) -> Result<bool> {
    slots.put(1)?.fill(u8::from(own));
    slots.show();
    let size = slots.size();
    let shown = slots.shown(0..1)?;
    let mut all = true;
    for member in 0..size {
        all &= shown.of(member)? == [1];
    }
    slots.take();
    Ok(all)
}

/// Memory of one block each.
struct Blocks<'a> {
    sum: &'a mut [u8],
    /// What was read of another member.
    other: &'a mut [u8],
    /// This member's values, scaled.
    own: &'a mut [u8],
}

struct Operation<'a, 'b, 'c> {
    slots: SharedSlots<'a>,
    index: usize,
    size: usize,
    combine: Combine,
    factor: f64,
    tensor: &'b mut Tensor<'c>,
    cards: Vec<Card>,
    scratch: Blocks<'b>,
}

impl Operation<'_, '_, '_> {
    fn run(mut self, chunk: usize) -> Result<()> {
        let total = self.tensor.len();
        let chunks = total.div_ceil(chunk);
        let range = |number: usize| number * chunk..total.min((number + 1) * chunk);
        for turn in 0..=chunks {
            if turn < chunks {
                self.reduce_share(range(turn))?;
                self.count()?;
            }
            if turn > 0 {
                self.all_counted()?;
                self.collect(range(turn - 1))?;
                self.slots.take();
            }
        }
        self.count()?;
        self.all_counted()?;
        self.slots.take();
        Ok(())
    }

    /// An empty chunk tells the others how far this member is.
    fn count(&mut self) -> Result<()> {
        self.slots.put(0)?;
        self.slots.show();
        Ok(())
    }

    fn all_counted(&mut self) -> Result<()> {
        self.slots.shown(0..0)?;
        Ok(())
    }

    /// The bytes of a member's share of a chunk.
    fn share(&self, chunk: &Range<usize>, member: usize) -> Range<usize> {
        let share = self.slots.share(chunk.len(), member);
        chunk.start + share.start..chunk.start + share.end
    }

    fn reduce_share(&mut self, chunk: Range<usize>) -> Result<()> {
        let share = self.share(&chunk, self.index);
        for start in share.clone().step_by(self.scratch.sum.len()) {
            let end = share.end.min(start + self.scratch.sum.len());
            self.reduce_block(start..end)?;
        }
        Ok(())
    }

    /// Reduces a block of all members' values into the result, in their order.
    fn reduce_block(&mut self, block: Range<usize>) -> Result<()> {
        let Self {
            slots,
            combine,
            cards,
            ..
        } = self;
        let length = block.len();
        let sum = &mut self.scratch.sum[..length];
        let other = &mut self.scratch.other[..length];
        let mut read = |member: usize, buffer: &mut [u8]| {
            let card: &Card = &cards[member];
            slots.read(member, card.input().after(block.start), buffer)?;
            scale(combine.dtype, card.factor, buffer)
        };
        let values = &self.tensor.input()[block.clone()];
        let place = &mut self.scratch.own[..length];
        let own = scaled(*combine, self.tensor.factor, values, place)?;
        let next = if self.index == 0 {
            read(1, other)?;
            combine.merge(sum, [own, other])?;
            2
        } else {
            read(0, sum)?;
            1
        };
        for member in next..self.size {
            if member == self.index {
                combine.apply(sum, own)?;
            } else {
                read(member, other)?;
                combine.apply(sum, other)?;
            }
        }
        scale(combine.dtype, self.factor, sum)?;
        copy(sum, &mut self.tensor.output()[block]);
        Ok(())
    }

    /// Reads the others' shares of a chunk out of their results.
    fn collect(&mut self, chunk: Range<usize>) -> Result<()> {
        for distance in 1..self.size {
            let member = (self.index + distance) % self.size;
            let share = self.share(&chunk, member);
            let place = self.cards[member].output().after(share.start);
            let result = &mut self.tensor.output()[share];
            self.slots.read(member, place, result)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hvd_types::DType;

    use super::*;
    use crate::{Reduction, TensorMemory};

    #[test]
    fn direct_3_a_card_is_used_only_if_its_memory_holds_it() {
        let combine = Combine {
            dtype: DType::Bool,
            reduction: Reduction::Sum,
        };
        let (mut values, mut memory) = ([0; 4096], Box::new([0; Card::BYTES]));
        let mut tensor = Tensor {
            memory: TensorMemory::InPlace(&mut values),
            factor: 1.0,
        };
        let card = Card::of(&mut tensor, &mut memory);
        assert_eq!(Card::decode(&*memory), Some(card));
        assert_eq!(Card::decode(&memory[1..]), None);
        assert!(card.is_usable(combine, 4096));
        assert!(!card.is_usable(combine, 4095));
        let process = i32::MAX.unsigned_abs();
        let (own, random) = (
            Place {
                process,
                ..card.own
            },
            [1, 2],
        );
        for wrong in [
            Card { own, ..card },
            Card { random, ..card },
            Card { input: 8, ..card },
            Card {
                output: u64::MAX,
                ..card
            },
            Card {
                factor: 0.5,
                ..card
            },
        ] {
            memory.copy_from_slice(bytemuck::cast_slice(&card.words()));
            assert!(!wrong.is_usable(combine, 4096), "{wrong:?}");
            // Even if its memory says the same.
            memory.copy_from_slice(bytemuck::cast_slice(&wrong.words()));
            assert_eq!(
                wrong.is_usable(combine, 4096),
                wrong.random == random,
                "{wrong:?}"
            );
        }
    }
}
