//! Barrier: no rank leaves before all ranks have arrived.

use super::Context;
use crate::handle::OperationOutput;

pub(super) fn barrier(context: &mut Context<'_>) -> hvd_collectives::Result<Vec<OperationOutput>> {
    hvd_collectives::barrier(&mut context.comm)?;
    Ok(vec![OperationOutput::default()])
}
