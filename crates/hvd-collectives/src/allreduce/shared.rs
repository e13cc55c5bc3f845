//! Allreduce of ranks that see the same memory: values are reduced where they are shown.
//!
//! Tensors are one run of bytes, cut into chunks; no chunk depends on another. With n members:
//!
//! - Long runs. Every member copies its values of the other members' parts of a chunk into its
//!   slot; then reduces its own part, reading the others' slots, into its own slot and its result;
//!   then copies the other parts of the result out of the others' slots. Per chunk of C bytes a
//!   member copies C (n - 1) / n in and as much out, and reads C to reduce. The three stages work
//!   on three chunks in turn, so a member that is late holds up the others a stage later only.
//! - Short runs. Every member shows all its values and reduces those of all members: one exchange.
//!
//! Scaling is part of the copies: each tensor's factor on the way into the slot, that of the result
//! once, by the member that reduces.
//!
//! Results are the same bits everywhere, because the values of an element are always reduced in
//! the order of the members, and either by one of them or by all in the same way. For the same
//! reason they do not depend on what travels together, or how it is cut.

use std::ops::Range;

use hvd_transport::SharedSlots;

use crate::error::expect_length;
use crate::kernel::{copy, copy_scaled, is_one, scale};
use crate::tensors::{Tensor, Tensors};
use crate::{Combine, Communicator, Result, Workspace};

/// Bytes that are reduced over all members before the next: they stay in the fastest cache.
const BLOCK: usize = 16 * 1024;

/// Chunks begin on multiples of this: a cache line, and a multiple of every element.
const GRAIN: usize = 64;

/// Reduces tensors over all members, and multiplies the result by `factor`, if the members see the
/// same memory; else returns false and has done nothing. Every member must give as many bytes.
pub fn shared_allreduce(
    comm: &mut Communicator<'_>,
    combine: Combine,
    factor: f64,
    tensors: &mut [Tensor<'_>],
    workspace: &mut Workspace,
) -> Result<bool> {
    let Some(slots) = comm.shared_slots() else {
        return Ok(false);
    };
    check(combine, factor, tensors)?;
    let tuning = workspace.tuning;
    let operation = SharedAllreduce {
        index: slots.index(),
        size: slots.size(),
        slots,
        combine,
        factor,
        tensors: Tensors::new(tensors),
        scratch: workspace.scratch.bytes(BLOCK),
    };
    let (bytes, room) = (operation.tensors.len(), operation.slots.capacity());
    let small = tuning.small_allreduce_bytes.saturating_mul(2);
    if bytes <= room && bytes.saturating_mul(operation.size) <= small {
        operation.at_once()?;
    } else {
        // Every member's part of a chunk has the usual length.
        let most = tuning.chunk_bytes.saturating_mul(operation.size).min(room);
        operation.in_chunks(chunk_bytes(bytes, most))?;
    }
    Ok(true)
}

/// Fails before anything is shown, or the members would not be in step any more.
fn check(combine: Combine, factor: f64, tensors: &mut [Tensor<'_>]) -> Result<()> {
    scale(combine.dtype, factor, &mut [])?;
    for tensor in tensors {
        combine.check(tensor.len())?;
        scale(combine.dtype, tensor.factor, &mut [])?;
        expect_length(
            "result of an allreduce",
            tensor.len(),
            tensor.output().len(),
        )?;
    }
    Ok(())
}

/// Bytes of each chunk but the last: as even as possible, about `most` but whole grains.
fn chunk_bytes(total: usize, most: usize) -> usize {
    let most = (most / GRAIN).max(1) * GRAIN;
    let chunks = total.div_ceil(most).max(1);
    total.div_ceil(chunks).next_multiple_of(GRAIN)
}

struct SharedAllreduce<'a, 'b, 'c> {
    slots: SharedSlots<'a>,
    index: usize,
    size: usize,
    combine: Combine,
    factor: f64,
    tensors: Tensors<'b, 'c>,
    /// One block.
    scratch: &'b mut [u8],
}

impl SharedAllreduce<'_, '_, '_> {
    /// Every member reduces everything.
    fn at_once(mut self) -> Result<()> {
        let all = 0..self.tensors.len();
        if all.is_empty() {
            return Ok(());
        }
        let slot = self.slots.put(all.len())?;
        copy_to_slot(self.combine, &self.tensors, all.clone(), slot)?;
        self.slots.show();
        let inputs = self.slots.shown(all.clone())?;
        let (combine, size, factor) = (self.combine, self.size, self.factor);
        self.tensors.each(all, BLOCK, |tensors, stretch| {
            let result = tensors.output(&stretch);
            reduce(combine, size, result, |member| {
                Ok(&inputs.of(member)?[stretch.offset.clone()])
            })?;
            scale(combine.dtype, factor, result)
        })?;
        self.slots.take();
        Ok(())
    }

    /// Every member reduces a part of each chunk; three stages, each one chunk behind the one
    /// before.
    fn in_chunks(mut self, chunk: usize) -> Result<()> {
        let total = self.tensors.len();
        let chunks = total.div_ceil(chunk);
        let range = |number: usize| number * chunk..total.min((number + 1) * chunk);
        for turn in 0..chunks + 2 {
            if turn < chunks {
                self.put(range(turn))?;
            }
            if (1..=chunks).contains(&turn) {
                self.reduce_part(range(turn - 1))?;
            }
            if turn >= 2 {
                self.take(range(turn - 2))?;
            }
        }
        Ok(())
    }

    /// Shows the others what they reduce.
    fn put(&mut self, chunk: Range<usize>) -> Result<()> {
        let own = self.slots.share(chunk.len(), self.index);
        let slot = self.slots.put(chunk.len())?;
        for part in [0..own.start, own.end..chunk.len()] {
            let range = chunk.start + part.start..chunk.start + part.end;
            copy_to_slot(self.combine, &self.tensors, range, &mut slot[part])?;
        }
        self.slots.show();
        Ok(())
    }

    /// Reduces this member's part.
    fn reduce_part(&mut self, chunk: Range<usize>) -> Result<()> {
        let part = self.slots.share(chunk.len(), self.index);
        let range = chunk.start + part.start..chunk.start + part.end;
        let (combine, size, index, factor) = (self.combine, self.size, self.index, self.factor);
        let scratch = &mut *self.scratch;
        let (results, inputs) = self.slots.parts()?;
        self.tensors.each(range, BLOCK, |tensors, stretch| {
            let own = &mut scratch[..stretch.offset.len()];
            let own = scaled(
                combine,
                tensors.factor(&stretch),
                tensors.input(&stretch),
                own,
            )?;
            let result = &mut results[stretch.offset.clone()];
            reduce(combine, size, result, |member| {
                if member == index {
                    return Ok(own);
                }
                Ok(&inputs.of(member)?[stretch.offset.clone()])
            })?;
            scale(combine.dtype, factor, result)?;
            copy(result, tensors.output(&stretch));
            Ok(())
        })?;
        self.slots.finish();
        Ok(())
    }

    /// Copies the others' parts of the result.
    fn take(&mut self, chunk: Range<usize>) -> Result<()> {
        for distance in 1..self.size {
            let member = (self.index + distance) % self.size;
            let part = self.slots.share(chunk.len(), member);
            let result = self.slots.part(member)?;
            let range = chunk.start + part.start..chunk.start + part.end;
            self.tensors.each(range, usize::MAX, |tensors, stretch| {
                let offset = stretch.offset.clone();
                copy(&result[offset], tensors.output(&stretch));
                Ok(())
            })?;
        }
        self.slots.take();
        Ok(())
    }
}

/// Copies a range of the tensors, scaled, to where others read it.
fn copy_to_slot(
    combine: Combine,
    tensors: &Tensors<'_, '_>,
    range: Range<usize>,
    slot: &mut [u8],
) -> Result<()> {
    tensors.view(range, |stretch| {
        let (input, factor) = (tensors.input(&stretch), tensors.factor(&stretch));
        copy_scaled(combine.dtype, factor, input, &mut slot[stretch.offset])
    })
}

/// The values themselves if they need no scaling, else scaled in `place`.
fn scaled<'v>(
    combine: Combine,
    factor: f64,
    values: &'v [u8],
    place: &'v mut [u8],
) -> Result<&'v [u8]> {
    if is_one(factor) {
        return Ok(values);
    }
    copy_scaled(combine.dtype, factor, values, place)?;
    Ok(place)
}

/// Reduces the operands of all members into `result`, in their order.
fn reduce<'o>(
    combine: Combine,
    members: usize,
    result: &mut [u8],
    operand: impl Fn(usize) -> Result<&'o [u8]>,
) -> Result<()> {
    combine.merge(result, [operand(0)?, operand(1)?])?;
    for member in 2..members {
        combine.apply(result, operand(member)?)?;
    }
    Ok(())
}
