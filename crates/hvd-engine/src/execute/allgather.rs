//! Allgather: the rows of all ranks, one rank after the other, on every rank. First dimensions may
//! differ.
//!
//! A single tensor is gathered where its result goes. Several travel in the fusion buffer ordered
//! by rank: all slices of rank 0, all slices of rank 1, and so on.

use hvd_collectives::{Communicator, PartsMut, Tuning, allgather_in_place, hierarchical_allgather};
use hvd_types::{Shape, Topology};
use hvd_wire::{Operation, TensorSpec};

use super::{Context, Work, buffer, count, row_bytes};
use crate::handle::OperationOutput;
use crate::tensor::{OutputMemory, TensorSource};
use crate::timeline::Activity;

pub(super) fn allgather(
    context: &mut Context<'_>,
    operation: &Operation,
    mut works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
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
) -> hvd_collectives::Result<OperationOutput> {
    let Work {
        spec,
        source,
        target,
        ..
    } = work;
    let counts = bytes_by_rank(&spec, operation);
    context.phases.begin(Activity::AllocateOutput);
    let mut memory = target.into_memory(counts.iter().sum());
    context.phases.begin(Activity::Collective(operation.kind));
    let start = counts[..context.comm.index()].iter().sum::<usize>();
    let bytes = memory.as_mut_slice();
    bytes[start..start + source.len()].copy_from_slice(source.as_slice());
    let output = PartsMut {
        bytes,
        counts: &counts,
    };
    gather(
        &mut context.comm,
        context.allgather_hosts,
        output,
        &context.workspace.tuning,
    )?;
    Ok(OperationOutput {
        output: memory.into_buffer(),
        shape: gathered_shape(&spec),
        ..OperationOutput::default()
    })
}

fn fused(
    context: &mut Context<'_>,
    operation: &Operation,
    works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    let me = context.comm.index();
    // By tensor, then by rank.
    let counts: Vec<Vec<usize>> = works
        .iter()
        .map(|work| bytes_by_rank(&work.spec, operation))
        .collect();
    let blocks: Vec<usize> = (0..context.comm.size())
        .map(|rank| counts.iter().map(|by_rank| by_rank[rank]).sum())
        .collect();
    context.phases.begin(Activity::AllocateOutput);
    let (sources, results): (Vec<_>, Vec<_>) = works
        .into_iter()
        .zip(&counts)
        .map(|(work, by_rank)| Gathered::new(work, by_rank))
        .unzip();
    let buffer = buffer(context.fusion, blocks.iter().sum(), &mut context.phases);
    context.phases.begin(Activity::MemcpyInFusionBuffer);
    let mut place = blocks[..me].iter().sum();
    for bytes in sources.iter().map(TensorSource::as_slice) {
        buffer[place..place + bytes.len()].copy_from_slice(bytes);
        place += bytes.len();
    }
    context.phases.begin(Activity::Collective(operation.kind));
    let output = PartsMut {
        bytes: buffer,
        counts: &blocks,
    };
    gather(
        &mut context.comm,
        context.allgather_hosts,
        output,
        &context.workspace.tuning,
    )?;
    context.phases.begin(Activity::MemcpyOutFusionBuffer);
    Ok(unpack(results, &counts, buffer))
}

/// Gathers the parts of all ranks, of which this rank's own is in its place.
fn gather(
    comm: &mut Communicator<'_>,
    hosts: Option<&Topology>,
    output: PartsMut<'_>,
    tuning: &Tuning,
) -> hvd_collectives::Result<()> {
    match hosts {
        Some(hosts) => hierarchical_allgather(comm.transport(), hosts, output, tuning),
        None => allgather_in_place(comm, output, tuning),
    }
}

/// Where the result of a tensor that travels with others goes.
struct Gathered {
    shape: Shape,
    memory: OutputMemory,
    filled: usize,
}

impl Gathered {
    /// What a tensor sends, and where its result goes.
    fn new(work: Work, by_rank: &[usize]) -> (TensorSource, Self) {
        let gathered = Self {
            shape: gathered_shape(&work.spec),
            memory: work.target.into_memory(by_rank.iter().sum()),
            filled: 0,
        };
        (work.source, gathered)
    }

    fn append(&mut self, slice: &[u8]) {
        let place = self.filled..self.filled + slice.len();
        self.memory.as_mut_slice()[place].copy_from_slice(slice);
        self.filled += slice.len();
    }

    fn into_outcome(self) -> OperationOutput {
        OperationOutput {
            output: self.memory.into_buffer(),
            shape: self.shape,
            ..OperationOutput::default()
        }
    }
}

/// Copies each tensor's slices out of a buffer ordered by rank.
fn unpack(
    mut results: Vec<Gathered>,
    counts: &[Vec<usize>],
    buffer: &[u8],
) -> Vec<OperationOutput> {
    let mut rest = buffer;
    for rank in 0..counts.first().map_or(0, Vec::len) {
        for (result, by_rank) in results.iter_mut().zip(counts) {
            let (slice, after) = rest.split_at(by_rank[rank]);
            result.append(slice);
            rest = after;
        }
    }
    results.into_iter().map(Gathered::into_outcome).collect()
}

fn bytes_by_rank(spec: &TensorSpec, operation: &Operation) -> Vec<usize> {
    let row = row_bytes(spec, operation);
    spec.first_dimensions
        .iter()
        .map(|&rows| count(rows).saturating_mul(row))
        .collect()
}

fn gathered_shape(spec: &TensorSpec) -> Shape {
    spec.shape.with_first(spec.first_dimensions.iter().sum())
}
