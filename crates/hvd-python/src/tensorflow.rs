//! Gives TensorFlow's ops, which run without Python, the engine of this process.

use std::sync::Arc;

use hvd_engine::Engine;
use hvd_tensorflow::Worker;
use hvd_types::Placement;
use pyo3::prelude::*;

use crate::error::Error;
use crate::session::{self, WorkerSession};

/// Registers the ops with the TensorFlow that this process has loaded, and returns their names.
#[pyfunction]
pub(crate) fn tensorflow_register() -> PyResult<Vec<&'static str>> {
    hvd_tensorflow::register(current).map_err(Error::from)?;
    Ok(hvd_tensorflow::op_names())
}

fn current() -> Option<Arc<dyn Worker>> {
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
