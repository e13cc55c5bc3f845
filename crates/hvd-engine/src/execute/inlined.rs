//! Allreduce of small tensors that travel with the notices of a schedule: every rank has those of
//! all ranks, and reduces them all itself, in the order of ranks, so that the results are the same
//! everywhere.

use hvd_collectives::{Scratch, kernel};
use hvd_types::{OpKind, ReduceOp};
use hvd_wire::Operation;

use super::Work;
use super::allreduce::{combine, factor_out};
use crate::handle::OperationOutput;
use crate::tensor::TensorSource;

/// The most bytes that travel with a notice.
pub(crate) const MOST_BYTES: u64 = 4096;

/// Whether tensors of so many bytes travel with the notices.
pub(crate) fn is_inlined(operation: &Operation, bytes: u64) -> bool {
    operation.kind == OpKind::Allreduce
        && operation.reduce_op != ReduceOp::Adasum
        && bytes <= MOST_BYTES
}

/// Appends this rank's tensors, prescaled, to a notice; false if one is not there.
pub(crate) fn gather<'a>(
    operation: &Operation,
    sources: impl Iterator<Item = Option<&'a TensorSource>>,
    notice: &mut Vec<u8>,
) -> hvd_collectives::Result<bool> {
    for source in sources {
        let Some(source) = source else {
            return Ok(false);
        };
        let (start, bytes) = (notice.len(), source.as_slice());
        notice.resize(start + bytes.len(), 0);
        kernel::copy_scaled(
            operation.dtype,
            operation.prescale,
            bytes,
            &mut notice[start..],
        )?;
    }
    Ok(true)
}

/// Reduces the tensors of all notices and hands out the results.
pub(super) fn spread(
    operation: &Operation,
    works: Vec<Work>,
    notices: &[impl AsRef<[u8]>],
    scratch: &mut Scratch,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    let total = works.iter().map(|work| work.source.len()).sum();
    let sum = scratch.bytes(total);
    let reduction = combine(operation).reduction;
    for (position, notice) in notices.iter().enumerate() {
        if position == 0 {
            kernel::copy_scaled(operation.dtype, 1.0, notice.as_ref(), sum)?;
        } else {
            kernel::reduce(operation.dtype, reduction, sum, notice.as_ref())?;
        }
    }
    let factor = factor_out(operation);
    let mut rest = &sum[..];
    let mut outcomes = Vec::with_capacity(works.len());
    for work in works {
        let (part, after) = rest.split_at(work.source.len());
        let mut memory = work.target.into_memory(part.len());
        kernel::copy_scaled(operation.dtype, factor, part, memory.as_mut_slice())?;
        outcomes.push(OperationOutput {
            output: memory.into_buffer(),
            shape: work.spec.shape.clone(),
            ..OperationOutput::default()
        });
        rest = after;
    }
    Ok(outcomes)
}
