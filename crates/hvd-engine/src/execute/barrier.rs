//! Barrier: nobody leaves before everybody has come.

use super::Context;
use crate::handle::Outcome;

pub(super) fn barrier(context: &mut Context<'_>) -> hvd_collectives::Result<Vec<Outcome>> {
    hvd_collectives::barrier(&mut context.comm)?;
    Ok(vec![Outcome::default()])
}
