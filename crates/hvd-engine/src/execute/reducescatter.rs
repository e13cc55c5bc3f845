//! Reducescatter: rows are reduced over all ranks and each rank keeps its share, the first ranks
//! one row more if they do not come out even.
//!
//! Several tensors travel in the fusion buffer ordered by destination: all slices for rank 0, all
//! slices for rank 1, and so on; what a rank gets back is its slices of all tensors.

use std::ops::Range;

use hvd_collectives::{Combine, Parts, Reduction, ScatterBuffers, kernel, share};
use hvd_wire::{Operation, TensorSpec};

use super::{Context, Work, buffer, count, row_bytes};
use crate::handle::OperationOutput;
use crate::timeline::Activity;

pub(super) fn reducescatter(
    context: &mut Context<'_>,
    operation: &Operation,
    works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    let (me, size) = (context.comm.index(), context.comm.size());
    let combine = Combine {
        dtype: operation.dtype,
        reduction: Reduction::Sum,
    };
    let counts: Vec<usize> = (0..size)
        .map(|rank| {
            works
                .iter()
                .map(|work| slice(&work.spec, operation, size, rank).len())
                .sum()
        })
        .collect();
    let input = buffer(context.fusion, counts.iter().sum(), &mut context.phases);
    context.phases.begin(Activity::MemcpyInFusionBuffer);
    let mut rest = &mut input[..];
    for rank in 0..size {
        for work in &works {
            let bytes = &work.source.as_slice()[slice(&work.spec, operation, size, rank)];
            let (part, after) = rest.split_at_mut(bytes.len());
            kernel::copy_scaled(operation.dtype, operation.prescale, bytes, part)?;
            rest = after;
        }
    }
    context.phases.begin(Activity::Collective(operation.kind));
    let output = context.result.bytes(counts[me]);
    let buffers = ScatterBuffers {
        input: Parts {
            bytes: input,
            counts: &counts,
        },
        output: &mut *output,
    };
    hvd_collectives::reducescatter(&mut context.comm, combine, buffers, context.workspace)?;
    context.phases.begin(Activity::MemcpyOutFusionBuffer);
    let mut rest = &output[..];
    let mut outcomes = Vec::with_capacity(works.len());
    for Work { spec, target, .. } in works {
        let (part, after) = rest.split_at(slice(&spec, operation, size, me).len());
        let mut memory = target.into_memory(part.len());
        kernel::copy_scaled(
            operation.dtype,
            operation.postscale,
            part,
            memory.as_mut_slice(),
        )?;
        let rows = share(count(spec.shape.first().unwrap_or(0)), size, me).len();
        let shape = spec.shape.with_first(rows as u64);
        outcomes.push(OperationOutput {
            output: memory.into_buffer(),
            shape,
            ..OperationOutput::default()
        });
        rest = after;
    }
    Ok(outcomes)
}

/// The bytes of a tensor that a rank gets.
fn slice(spec: &TensorSpec, operation: &Operation, size: usize, rank: usize) -> Range<usize> {
    let row = row_bytes(spec, operation);
    let rows = share(count(spec.shape.first().unwrap_or(0)), size, rank);
    rows.start.saturating_mul(row)..rows.end.saturating_mul(row)
}
