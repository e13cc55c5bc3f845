//! The errors that callers of the engine get. One failure may concern many tensors, so errors are
//! cheap to clone. The texts users match on are all here and in `negotiate/validate.rs`.

use std::sync::Arc;

use hvd_transport::Failure;
use hvd_types::{ProcessSetId, Rank};

use crate::submit::{ArgumentError, Unsupported};

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation was not accepted or did not complete.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is no engine.
    #[error("horovod has not been initialized; call hvd.init() first")]
    NotInitialized,
    /// This rank's engine has ended because this rank wanted it to.
    #[error("horovod has been shut down; call hvd.init() again to go on")]
    ShutDown,
    /// The engine has ended because another rank wanted it to.
    #[error(
        "horovod has been shut down by rank {rank} on host `{host}`, which called hvd.shutdown() \
         or ended; if it was not meant to, its output has the cause"
    )]
    ShutDownBy {
        /// The rank that asked for it first.
        rank: Rank,
        /// Its host.
        host: String,
    },
    /// The name is taken by an operation that has not begun to execute.
    #[error(
        "a tensor named `{name}` is already being processed; give each operation in flight a name \
         of its own, or wait for the first one"
    )]
    DuplicateName {
        /// The name.
        name: Arc<str>,
    },
    /// The call makes no sense, whatever the other ranks do.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The call asks for something that is not offered.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The operation's process set was removed while it was pending.
    #[error("process set {0} was removed before the operation could be executed")]
    Removed(ProcessSetId),
    /// A process set cannot be added or removed.
    #[error("{0}")]
    ProcessSet(String),
    /// The ranks do not agree; the text names both sides.
    #[error("{0}")]
    Mismatch(String),
    /// A rank of the job is gone.
    #[error("{0}; collective operations cannot go on without it")]
    PeerLost(Failure),
    /// The operation was agreed on but could not be carried out.
    #[error("{operation} failed: {reason}")]
    Execution {
        /// What was being done, with the tensor's name.
        operation: String,
        /// Why it failed.
        reason: String,
    },
    /// The engine itself could not go on.
    #[error("{0}")]
    Internal(String),
}

/// How an error is to be treated by a framework's layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Something the caller must do first, or that the ranks must agree on.
    Precondition,
    /// The arguments of the call are wrong.
    InvalidArgument,
    /// The operation is refused for a reason that is not in its arguments alone.
    Aborted,
    /// Anything that ends or fails an operation under way.
    Unknown,
}

impl Error {
    /// How a framework's layer is to treat this.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotInitialized | Self::Mismatch(_) => ErrorClass::Precondition,
            Self::DuplicateName { .. } | Self::Argument(_) | Self::ProcessSet(_) => {
                ErrorClass::InvalidArgument
            }
            Self::Unsupported(_) | Self::Removed(_) => ErrorClass::Aborted,
            Self::ShutDown
            | Self::ShutDownBy { .. }
            | Self::PeerLost(_)
            | Self::Execution { .. }
            | Self::Internal(_) => ErrorClass::Unknown,
        }
    }
}

impl From<hvd_transport::Error> for Error {
    fn from(error: hvd_transport::Error) -> Self {
        match error {
            hvd_transport::Error::PeerLost(failure) => Self::PeerLost(failure),
            hvd_transport::Error::Stalled {
                rank,
                host,
                seconds,
            } => {
                let reason = format!(
                    "made no progress for {seconds} s (HOROVOD_GLOO_TIMEOUT_SECONDS); is it \
                     suspended, swapping or cut off?"
                );
                Self::PeerLost(Failure { rank, host, reason })
            }
            other => Self::Internal(other.to_string()),
        }
    }
}
