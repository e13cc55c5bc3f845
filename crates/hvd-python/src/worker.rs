//! Gives the glue of frameworks, which runs without Python, the engine of this process.

use std::sync::Arc;

use hvd_engine::{Engine, Worker};
use hvd_types::Placement;

use crate::session::{self, WorkerSession};

/// Finds the initialized horovod of this process.
pub(crate) fn find() -> Option<Arc<dyn Worker>> {
    let session = session::current().ok()?;
    Some(session)
}

impl Worker for WorkerSession {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn placement(&self) -> &Placement {
        &self.placement
    }
}
