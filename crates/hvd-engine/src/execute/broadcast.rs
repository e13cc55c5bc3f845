//! Broadcast: the root's tensor, everywhere. The root's own result is filled from its input.

use hvd_wire::Operation;

use super::{Context, Work};
use crate::handle::OperationOutput;
use crate::timeline::Activity;

pub(super) fn broadcast(
    context: &mut Context<'_>,
    operation: &Operation,
    works: Vec<Work>,
) -> hvd_collectives::Result<Vec<OperationOutput>> {
    context.phases.begin(Activity::Collective(operation.kind));
    let root = context.position(operation.root)?;
    let mut outcomes = Vec::with_capacity(works.len());
    for Work {
        spec,
        source,
        target,
        ..
    } in works
    {
        let in_place = target.is_same_memory(&source);
        let mut memory = target.into_memory(source.len());
        let bytes = memory.as_mut_slice();
        if context.comm.index() == root && !in_place {
            bytes.copy_from_slice(source.as_slice());
        }
        hvd_collectives::broadcast(&mut context.comm, root, bytes, &context.workspace.tuning)?;
        let (output, shape) = (memory.into_buffer(), spec.shape.clone());
        outcomes.push(OperationOutput {
            output,
            shape,
            ..OperationOutput::default()
        });
    }
    Ok(outcomes)
}
