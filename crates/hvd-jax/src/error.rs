//! What can go wrong between XLA and the engine, and how XLA is told.

use hvd_engine::ErrorClass;

/// This crate's results.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a collective of a compiled program failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    /// The engine refused or failed it.
    #[error(transparent)]
    Engine(#[from] hvd_engine::Error),
    /// The call makes no sense.
    #[error("{0}")]
    Argument(String),
    /// The result does not have the shape that the program was compiled for.
    #[error(
        "the ranks passed different numbers of rows: the result has {got} bytes, and the program \
         was compiled for {expected}; call hvd.{kind} outside of jit, where ranks may differ"
    )]
    OtherRows {
        /// The operation.
        kind: hvd_types::OpKind,
        /// The bytes of the program's buffer.
        expected: usize,
        /// The bytes of the result.
        got: usize,
    },
}

/// XLA's numbers of errors; only these are made here.
pub(crate) mod code {
    pub(crate) const UNKNOWN: i32 = 2;
    pub(crate) const INVALID_ARGUMENT: i32 = 3;
    pub(crate) const FAILED_PRECONDITION: i32 = 9;
    pub(crate) const ABORTED: i32 = 10;
}

impl Error {
    /// XLA's number for it.
    pub(crate) fn code(&self) -> i32 {
        let Self::Engine(error) = self else {
            return code::INVALID_ARGUMENT;
        };
        match error.class() {
            ErrorClass::Precondition => code::FAILED_PRECONDITION,
            ErrorClass::InvalidArgument => code::INVALID_ARGUMENT,
            ErrorClass::Aborted => code::ABORTED,
            ErrorClass::Unknown => code::UNKNOWN,
        }
    }

    /// What a user reads. JAX raises its own exception for whatever fails in a program, so the text
    /// has to say which one it stands for.
    pub(crate) fn text(&self) -> String {
        let text = hvd_types::printable(&self.to_string()).into_owned();
        match self {
            Self::Engine(error) if error.class() != ErrorClass::InvalidArgument => {
                format!("HorovodInternalError: {text}")
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_job_can_be_told_from_wrong_calls() {
        let lost = Error::from(hvd_engine::Error::ShutDown);
        assert_eq!(lost.code(), code::UNKNOWN);
        assert!(lost.text().starts_with("HorovodInternalError: "));
        let wrong = Error::Argument("no".to_owned());
        assert_eq!(wrong.code(), code::INVALID_ARGUMENT);
        assert_eq!(wrong.text(), "no");
    }
}
