//! Where the kernels find the process's engine, which comes and goes with `init` and `shutdown`.

use std::sync::{Arc, OnceLock};

use hvd_engine::Engine;
use hvd_types::Placement;

use crate::error::Result;

/// An initialized horovod.
pub trait Worker {
    /// The engine of this process.
    fn engine(&self) -> &Engine;
    /// The ranks and sizes of this process.
    fn placement(&self) -> &Placement;
}

/// Finds the worker of this process, if there is one.
pub type Current = fn() -> Option<Arc<dyn Worker>>;

static CURRENT: OnceLock<Current> = OnceLock::new();

/// Says where to look, once.
pub(crate) fn set(current: Current) {
    CURRENT.get_or_init(|| current);
}

/// The worker; an error if horovod is not initialized.
pub(crate) fn current() -> Result<Arc<dyn Worker>> {
    let worker = CURRENT.get().and_then(|current| current());
    Ok(worker.ok_or(hvd_engine::Error::NotInitialized)?)
}
