//! Errors become exceptions here, and nowhere else.
//!
//! Wrong arguments and wrong settings are `ValueError`; a framework that cannot be used is
//! `ImportError`; an operation that failed is
//! `horovod.common.exceptions.HorovodInternalError`, which elastic training recovers from.

use hvd_engine::ErrorClass;
use pyo3::exceptions::{PyImportError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// This crate's results.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Whatever can go wrong behind the module's functions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Engine(#[from] hvd_engine::Error),
    #[error(transparent)]
    Transport(#[from] hvd_transport::Error),
    #[error(transparent)]
    Config(#[from] hvd_config::Error),
    #[error(transparent)]
    Mpi(#[from] hvd_mpi::Error),
    #[error(transparent)]
    Store(#[from] hvd_transport::StoreError),
    #[error(transparent)]
    Bootstrap(#[from] hvd_bootstrap::Error),
    #[error(transparent)]
    UnknownCode(#[from] hvd_types::UnknownCode),
    #[error("handle {0} is unknown; it was never given out or has been waited for already")]
    UnknownHandle(u64),
    #[error(
        "this process runs below horovodrun (process {0}), but the variables HOROVOD_RANK, \
         HOROVOD_SIZE and so on, by which a rank is told its place, have not reached it: it would \
         train alone. Something in between cleans the environment (`singularity exec --cleanenv`, \
         `env -i`, `sudo`): let it pass HOROVOD_* on, or set HOROVOD_IGNORE_LAUNCHER=1 if this \
         process is to be a job of its own"
    )]
    LostEnvironment(i32),
    #[error("the thread that was to join the job has ended without an answer")]
    NoAnswer,
    #[error(
        "the timeline is not enabled; set HOROVOD_TIMELINE=DYNAMIC before hvd.init() to start it \
         from the program"
    )]
    NoTimeline,
    #[error("HOROVOD_THREAD_AFFINITY is of no use to local rank {local_rank}: {source}")]
    Core {
        local_rank: u32,
        source: hvd_engine::UnusableCore,
    },
    #[error(
        "the object that rank {rank} on host `{host}` sent for `{scope}` is not the one that arrived, \
         so it was not unpickled: the data connection is damaged or changed on its way; \
         HOROVOD_ENCRYPT=all protects tensors too"
    )]
    ForeignObject {
        rank: hvd_types::Rank,
        host: String,
        scope: String,
    },
    #[error("unknown reduction {0}; use Average, Sum, Adasum, Min, Max or Product")]
    UnknownReduction(String),
    #[error("reducescatter needs at least one dimension to split, got a scalar")]
    ScalarScatter,
    #[error("process set {0} does not exist")]
    UnknownProcessSet(u32),
    #[error("{0} needs an initialized horovod; call hvd.init() first")]
    NotInitialized(&'static str),
    #[error(transparent)]
    TensorFlow(#[from] hvd_tensorflow::Error),
    #[error(transparent)]
    Mxnet(#[from] hvd_mxnet::Error),
    #[error(transparent)]
    Python(#[from] PyErr),
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        // It may quote other ranks: their names of tensors and hosts, their last exceptions.
        let text = hvd_types::printable(&error.to_string()).into_owned();
        match error {
            Error::Python(error) => error,
            Error::TensorFlow(_) => PyImportError::new_err(text),
            Error::Mxnet(error) if error.is_unusable_library() => PyImportError::new_err(text),
            Error::Engine(error) if error.class() != ErrorClass::InvalidArgument => internal(text),
            Error::Bootstrap(error) if !error.is_configuration() => internal(text),
            Error::Mxnet(hvd_mxnet::Error::Engine(_))
            | Error::Transport(_)
            | Error::Store(_)
            | Error::NoAnswer
            | Error::ForeignObject { .. } => internal(text),
            Error::Engine(_)
            | Error::Mxnet(_)
            | Error::Config(_)
            | Error::Mpi(_)
            | Error::Bootstrap(_)
            | Error::UnknownCode(_)
            | Error::UnknownHandle(_)
            | Error::UnknownReduction(_)
            | Error::ScalarScatter
            | Error::UnknownProcessSet(_)
            | Error::NoTimeline
            | Error::LostEnvironment(_)
            | Error::Core { .. }
            | Error::NotInitialized(_) => PyValueError::new_err(text),
        }
    }
}

/// `HorovodInternalError`, or its base class if the Python package is not whole.
fn internal(text: String) -> PyErr {
    Python::attach(|py| {
        let class = py
            .import("horovod.common.exceptions")
            .and_then(|module| module.getattr("HorovodInternalError"));
        match class.and_then(|class| class.call1((text.clone(),))) {
            Ok(exception) => PyErr::from_value(exception),
            Err(_) => PyRuntimeError::new_err(text),
        }
    })
}
