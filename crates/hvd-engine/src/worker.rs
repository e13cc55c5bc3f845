//! Where the glue of a framework finds the process's engine, which comes and goes with `init` and
//! `shutdown`. Frameworks call it from threads of their own, without Python.

use std::sync::{Arc, OnceLock};

use hvd_types::Placement;

use crate::{Engine, Error, Result};

/// An initialized horovod.
pub trait Worker {
    /// The engine of this process.
    fn engine(&self) -> &Engine;
    /// The ranks and sizes of this process.
    fn placement(&self) -> &Placement;
}

/// Finds the worker of this process, if there is one.
pub type FindWorker = fn() -> Option<Arc<dyn Worker>>;

static FIND: OnceLock<FindWorker> = OnceLock::new();

/// Says how [`current_worker`] finds the worker; the first call counts.
pub fn set_find_worker(find: FindWorker) {
    FIND.get_or_init(|| find);
}

/// The worker; an error if horovod is not initialized.
pub fn current_worker() -> Result<Arc<dyn Worker>> {
    let worker = FIND.get().and_then(|find| find());
    worker.ok_or(Error::NotInitialized)
}
