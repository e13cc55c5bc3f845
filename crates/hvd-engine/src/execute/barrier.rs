//! Barrier: nobody leaves before everybody has come.

use super::Context;
use crate::handle::OperationOutput;

pub(super) fn barrier(context: &mut Context<'_>) -> hvd_collectives::Result<Vec<OperationOutput>> {
    hvd_collectives::barrier(&mut context.comm)?;
    Ok(vec![OperationOutput::default()])
}
