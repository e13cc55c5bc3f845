//! Allreduce: the same reduction of the tensors of all ranks, on every rank.
//!
//! Ranks that see the same memory reduce tensors where they are. Otherwise a single tensor is
//! reduced where its result goes, and several travel back to back in the fusion buffer. Prescale
//! happens on the way in; postscale and the division of an average are one factor on the way out.

use std::sync::Arc;

use hvd_collectives::{
    Combine, Communicator, Reduction, Tensor, TensorMemory, Workspace, hierarchical_allreduce,
    kernel,
};
use hvd_types::{OpKind, ReduceOp, Topology};
use hvd_wire::{Operation, TensorSpec};

use super::{Context, Work, buffer};
use crate::handle::OperationOutput;
use crate::tensor::{OutputMemory, TensorSource};
use crate::timeline::Activity;

pub(super) fn allreduce(
    context: &mut Context<'_>,
    operation: &Operation,
    mut works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    if operation.kind == OpKind::Allreduce && context.comm.shares_memory() {
        return in_shared_memory(context, operation, works);
    }
    if works.len() == 1
        && let Some(work) = works.pop()
    {
        return Ok(vec![alone(context, operation, work)?]);
    }
    fused(context, operation, works)
}

/// Without a fusion buffer: the algorithm copies between the tensors and the shared memory.
fn in_shared_memory(
    context: &mut Context<'_>,
    operation: &Operation,
    works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    context.phases.begin(Activity::Collective(operation.kind));
    let mut parts: Vec<(Arc<TensorSpec>, TensorSource, OutputMemory, f64)> = works
        .into_iter()
        .map(|work| {
            let factor = factor_in(operation, &work);
            let in_place = work.target.is_same_memory(&work.source);
            let memory = work.target.into_memory(work.source.len());
            // A source in the same place is not looked at any more.
            let source = if in_place {
                TensorSource::owned(Vec::new())
            } else {
                work.source
            };
            (work.spec, source, memory, factor)
        })
        .collect();
    let mut tensors: Vec<Tensor<'_>> = parts
        .iter_mut()
        .map(|(_, source, memory, factor)| Tensor {
            memory: match (source.as_slice(), memory.as_mut_slice()) {
                ([], bytes) => TensorMemory::InPlace(bytes),
                (input, output) => TensorMemory::Apart { input, output },
            },
            factor: *factor,
        })
        .collect();
    let (combine, factor) = (combine(operation), factor_out(operation));
    let (comm, workspace) = (&mut context.comm, &mut *context.workspace);
    hvd_collectives::shared_allreduce(comm, combine, factor, &mut tensors, workspace)?;
    drop(tensors);
    let outcome = |(spec, _, memory, _): (Arc<TensorSpec>, TensorSource, OutputMemory, f64)| {
        OperationOutput {
            output: memory.into_buffer(),
            shape: spec.shape.clone(),
            ..OperationOutput::default()
        }
    };
    Ok(parts.into_iter().map(outcome).collect())
}

fn alone(
    context: &mut Context<'_>,
    operation: &Operation,
    work: Work,
) -> hvd_collectives::Result<OperationOutput> {
    context.phases.begin(Activity::Collective(operation.kind));
    let prescale = factor_in(operation, &work);
    let Work {
        spec,
        source,
        target,
        ..
    } = work;
    let in_place = target.is_same_memory(&source);
    let mut memory = target.into_memory(source.len());
    let bytes = memory.as_mut_slice();
    if in_place {
        kernel::scale(operation.dtype, prescale, bytes)?;
    } else {
        kernel::copy_scaled(operation.dtype, prescale, source.as_slice(), bytes)?;
    }
    let way = ReduceContext {
        comm: &mut context.comm,
        hosts: context.allreduce_hosts,
        workspace: context.workspace,
    };
    way.reduce(operation, bytes, &[source.len()])?;
    kernel::scale(operation.dtype, factor_out(operation), bytes)?;
    Ok(OperationOutput {
        output: memory.into_buffer(),
        shape: spec.shape.clone(),
        ..OperationOutput::default()
    })
}

fn fused(
    context: &mut Context<'_>,
    operation: &Operation,
    works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    let lengths: Vec<usize> = works.iter().map(|work| work.source.len()).collect();
    let buffer = buffer(context.fusion, lengths.iter().sum(), &mut context.phases);
    context.phases.begin(Activity::MemcpyInFusionBuffer);
    let mut rest = &mut buffer[..];
    for work in &works {
        let (part, after) = rest.split_at_mut(work.source.len());
        let prescale = factor_in(operation, work);
        kernel::copy_scaled(operation.dtype, prescale, work.source.as_slice(), part)?;
        rest = after;
    }
    context.phases.begin(Activity::Collective(operation.kind));
    let way = ReduceContext {
        comm: &mut context.comm,
        hosts: context.allreduce_hosts,
        workspace: context.workspace,
    };
    way.reduce(operation, buffer, &lengths)?;
    context.phases.begin(Activity::MemcpyOutFusionBuffer);
    let factor = factor_out(operation);
    let mut rest = &buffer[..];
    let mut outcomes = Vec::with_capacity(works.len());
    for Work {
        spec,
        source,
        target,
        ..
    } in works
    {
        let (part, after) = rest.split_at(source.len());
        let mut memory = target.into_memory(source.len());
        kernel::copy_scaled(operation.dtype, factor, part, memory.as_mut_slice())?;
        let (output, shape) = (memory.into_buffer(), spec.shape.clone());
        outcomes.push(OperationOutput {
            output,
            shape,
            ..OperationOutput::default()
        });
        rest = after;
    }
    Ok(outcomes)
}

/// The part of the context that an algorithm needs, apart from the buffers.
struct ReduceContext<'a, 'b> {
    comm: &'a mut Communicator<'b>,
    hosts: Option<&'a Topology>,
    workspace: &'a mut Workspace,
}

impl ReduceContext<'_, '_> {
    /// Reduces a buffer of tensors with the given lengths in bytes. Only Adasum has to know where
    /// one tensor ends and the next begins.
    fn reduce(
        self,
        operation: &Operation,
        buffer: &mut [u8],
        lengths: &[usize],
    ) -> hvd_collectives::Result<()> {
        let Self {
            comm,
            hosts,
            workspace,
        } = self;
        if operation.kind == OpKind::Adasum {
            return hvd_collectives::adasum(comm, operation.dtype, buffer, lengths, workspace);
        }
        let combine = combine(operation);
        match hosts {
            Some(hosts) => {
                hierarchical_allreduce(comm.transport(), hosts, combine, buffer, workspace)
            }
            None => hvd_collectives::allreduce(comm, combine, buffer, workspace),
        }
    }
}

/// Neutral elements stay neutral.
fn factor_in(operation: &Operation, work: &Work) -> f64 {
    if work.neutral {
        1.0
    } else {
        operation.prescale
    }
}

pub(super) fn factor_out(operation: &Operation) -> f64 {
    match operation.reduce_op {
        ReduceOp::Average => operation.postscale / f64::from(operation.divisor),
        _ => operation.postscale,
    }
}

pub(super) fn combine(operation: &Operation) -> Combine {
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
