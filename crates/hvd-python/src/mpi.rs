//! MPI as the data plane of this process's job: opened before the ranks meet, told how each session
//! ended, and the questions of `horovod.common.basics` about it.

use std::sync::Arc;

use hvd_config::{Environment, MpiConfig, WorkerConfig, name};
use hvd_engine::ExitReport;
use hvd_mpi::{Ending, Mpi, ThreadLevel};
use hvd_transport::FabricSource;
use pyo3::prelude::*;

use crate::error::Result;
use crate::logging;
use crate::session::{current, known};

/// Opens and initializes MPI if it is to move tensors. Call it before anything else talks to the
/// launcher: Open MPI 4.1 cannot be initialized after another use of PMIx has ended.
pub(crate) fn open(environment: &Environment) -> Result<Option<Arc<Mpi>>> {
    logging::install(environment)?;
    let Some(mpi) = MpiConfig::read(environment)? else {
        return Ok(None);
    };
    // A process that nothing has started as one of several needs no data plane.
    let has_place = environment.text(name::RANK).is_some();
    if mpi.launcher.is_none() && !has_place {
        return Ok(None);
    }
    let mpi = hvd_mpi::open(&mpi)?;
    // Until a session has ended well, the end of this process is a failure.
    mpi.session_ended(Ending::Failed);
    Ok(Some(mpi))
}

/// What moves the tensors of a job with this configuration, if that is MPI.
pub(crate) fn data_plane(
    mpi: Option<&Arc<Mpi>>,
    config: &WorkerConfig,
) -> Result<Option<Arc<dyn FabricSource>>> {
    if config.mpi_controller {
        tracing::info!(
            "HOROVOD_CONTROLLER=mpi: an MPI launcher started the ranks; control messages use Horovod's \
             own connections"
        );
    }
    let Some(mpi) = mpi else {
        return Ok(None);
    };
    mpi.check_place(&config.placement)?;
    Ok(Some(hvd_mpi::fabric_source(mpi)))
}

/// Remembers how the session ended, because MPI can be finalized only after a good end.
pub(crate) fn session_ended(end: &ExitReport) {
    if let Some(mpi) = hvd_mpi::opened() {
        mpi.session_ended(match end {
            ExitReport::Agreed | ExitReport::ShutDownBy(_) => Ending::Peaceful,
            ExitReport::Failed(_) => Ending::Failed,
        });
    }
}

/// Whether MPI was chosen to move tensors or to start the ranks.
#[pyfunction]
pub(crate) fn mpi_enabled() -> bool {
    current().is_ok_and(|session| session.mpi_enabled)
}

/// Whether MPI may be called from several threads at once.
#[pyfunction]
pub(crate) fn mpi_threads_supported() -> PyResult<bool> {
    known("mpi_threads_supported()")?;
    let level = hvd_mpi::opened().map(|mpi| mpi.thread_level());
    Ok(level == Some(ThreadLevel::Multiple))
}

/// Ends the job at the end of a program that would wait for a failed rank in its own
/// `MPI_Finalize`; returns otherwise.
#[pyfunction]
pub(crate) fn abort_mpi_if_failed(py: Python<'_>) {
    if let Some(mpi) = hvd_mpi::opened() {
        py.detach(|| mpi.abort_before_finalize());
    }
}
