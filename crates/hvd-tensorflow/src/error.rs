//! What can go wrong between TensorFlow and the engine, and the code by which TensorFlow knows it.

use hvd_engine::ErrorClass;

/// This crate's results.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why ops could not be registered, or a kernel failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// TensorFlow is not loaded, or not as the library of its wheels.
    #[error("`{library}` is not loaded; import tensorflow before horovod.tensorflow")]
    NotLoaded {
        /// The library that was looked for.
        library: &'static str,
    },
    /// The library lacks a function of the C API.
    #[error("`{library}` has no `{symbol}`")]
    MissingSymbol {
        /// The library.
        library: &'static str,
        /// The function.
        symbol: String,
    },
    /// TensorFlow refused something.
    #[error("{message}")]
    TensorFlow {
        /// TensorFlow's code.
        code: i32,
        /// TensorFlow's text.
        message: String,
    },
    /// The engine refused or failed an operation.
    #[error(transparent)]
    Engine(#[from] hvd_engine::Error),
    /// The arguments of an op make no sense.
    #[error("{0}")]
    Argument(String),
}

/// TensorFlow's numbers of errors; only these are made here.
pub(crate) type Code = i32;

/// The codes of `tensorflow/c/tf_status.h`.
pub(crate) mod code {
    use super::Code;

    pub(crate) const OK: Code = 0;
    pub(crate) const UNKNOWN: Code = 2;
    pub(crate) const INVALID_ARGUMENT: Code = 3;
    pub(crate) const FAILED_PRECONDITION: Code = 9;
    pub(crate) const ABORTED: Code = 10;
    pub(crate) const INTERNAL: Code = 13;
}

impl Error {
    /// The code that decides which exception a user sees.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::NotLoaded { .. } | Self::MissingSymbol { .. } => code::INTERNAL,
            Self::TensorFlow { code, .. } => *code,
            Self::Argument(_) => code::INVALID_ARGUMENT,
            Self::Engine(error) => match error.class() {
                ErrorClass::Precondition => code::FAILED_PRECONDITION,
                ErrorClass::InvalidArgument => code::INVALID_ARGUMENT,
                ErrorClass::Aborted => code::ABORTED,
                ErrorClass::Unknown => code::UNKNOWN,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_see_the_exception_that_upstream_raises() {
        let mismatch = hvd_engine::Error::Mismatch(String::new());
        assert_eq!(Error::from(mismatch).code(), code::FAILED_PRECONDITION);
        assert_eq!(
            Error::from(hvd_engine::Error::ShutDown).code(),
            code::UNKNOWN
        );
        assert_eq!(
            Error::Argument(String::new()).code(),
            code::INVALID_ARGUMENT
        );
    }
}
