//! Allreduce: the same reduction of everybody's tensor, everywhere.
//!
//! A single tensor is reduced where its result goes. Several travel back to back in the fusion
//! buffer. Prescale happens on the way in; postscale and the division of an average are one
//! factor on the way out.

use hvd_collectives::{Combine, Reduction, kernel};
use hvd_types::ReduceOp;
use hvd_wire::Operation;

use super::{Context, Work};
use crate::handle::Outcome;
use crate::submit::averaged;

pub(super) fn allreduce(
    context: &mut Context<'_>,
    operation: &Operation,
    mut works: Vec<Work>,
) -> hvd_collectives::Result<Vec<Outcome>> {
    if works.len() == 1
        && let Some(work) = works.pop()
    {
        return Ok(vec![alone(context, operation, work)?]);
    }
    fused(context, operation, works)
}

fn alone(
    context: &mut Context<'_>,
    operation: &Operation,
    work: Work,
) -> hvd_collectives::Result<Outcome> {
    let Work {
        plan,
        source,
        target,
        ..
    } = work;
    let in_place = target.is_same_memory(&source);
    let mut memory = target.into_memory(source.len());
    let bytes = memory.as_mut_slice();
    if in_place {
        kernel::scale(operation.dtype, operation.prescale, bytes)?;
    } else {
        kernel::copy_scaled(
            operation.dtype,
            operation.prescale,
            source.as_slice(),
            bytes,
        )?;
    }
    hvd_collectives::allreduce(
        &mut context.comm,
        combine(operation),
        bytes,
        context.workspace,
    )?;
    kernel::scale(
        operation.dtype,
        factor_out(operation, context.comm.size()),
        bytes,
    )?;
    Ok(Outcome {
        output: memory.into_buffer(),
        shape: plan.shape.clone(),
        ..Outcome::default()
    })
}

fn fused(
    context: &mut Context<'_>,
    operation: &Operation,
    works: Vec<Work>,
) -> hvd_collectives::Result<Vec<Outcome>> {
    let total = works.iter().map(|work| work.source.len()).sum();
    let buffer = context.fusion.bytes(total);
    let mut rest = &mut buffer[..];
    for work in &works {
        let (part, after) = rest.split_at_mut(work.source.len());
        kernel::copy_scaled(
            operation.dtype,
            operation.prescale,
            work.source.as_slice(),
            part,
        )?;
        rest = after;
    }
    hvd_collectives::allreduce(
        &mut context.comm,
        combine(operation),
        buffer,
        context.workspace,
    )?;
    let factor = factor_out(operation, context.comm.size());
    let mut rest = &buffer[..];
    let mut outcomes = Vec::with_capacity(works.len());
    for Work {
        plan,
        source,
        target,
        ..
    } in works
    {
        let (part, after) = rest.split_at(source.len());
        let mut memory = target.into_memory(source.len());
        kernel::copy_scaled(operation.dtype, factor, part, memory.as_mut_slice())?;
        let (output, shape) = (memory.into_buffer(), plan.shape.clone());
        outcomes.push(Outcome {
            output,
            shape,
            ..Outcome::default()
        });
        rest = after;
    }
    Ok(outcomes)
}

fn factor_out(operation: &Operation, size: usize) -> f64 {
    match operation.reduce_op {
        ReduceOp::Average => averaged(operation.postscale, size),
        _ => operation.postscale,
    }
}

fn combine(operation: &Operation) -> Combine {
    let reduction = match operation.reduce_op {
        ReduceOp::Average | ReduceOp::Sum | ReduceOp::Adasum => Reduction::Sum,
        ReduceOp::Min => Reduction::Min,
        ReduceOp::Max => Reduction::Max,
        ReduceOp::Product => Reduction::Product,
    };
    Combine {
        dtype: operation.dtype,
        reduction,
    }
}
