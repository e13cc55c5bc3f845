//! What can go wrong between MXNet and the engine.

/// This crate's results.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why MXNet cannot be used, or an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The library is not loaded.
    #[error("`{0}` is not loaded; import mxnet before horovod.mxnet")]
    NotLoaded(String),
    /// No library has been looked for yet.
    #[error("MXNet is used before horovod.mxnet was imported")]
    NotLookedFor,
    /// The library lacks a function.
    #[error("this MXNet has no `{0}`")]
    MissingSymbol(String),
    /// Arrays are laid out in memory in a way that is not known.
    #[error("this MXNet keeps its arrays in a way that is not known here")]
    UnknownLayout,
    /// MXNet refused something.
    #[error("{0}")]
    Mxnet(String),
    /// The engine has no such type of elements.
    #[error(
        "type not supported: MXNet's type number {0}; use uint8, int8, int32, int64, float16, \
         float32, float64, bool or bfloat16"
    )]
    UnknownType(i32),
    /// The array has more than one block of memory.
    #[error("sparse arrays are not supported; convert them with tostype('default')")]
    Sparse,
    /// The array is not in host memory.
    #[error("the array is on device type {0}, not in the memory of the host")]
    Device(i32),
    /// The array's shape is not known yet.
    #[error("the array has no shape yet")]
    NoShape,
    /// The array has no memory.
    #[error("the array has no memory of its own")]
    NoMemory,
    /// The array has the layout of an accelerated operator, and others may be reading it.
    #[error("the array changed its layout in memory after the call")]
    SpecialLayout,
    /// Two results would be written to the same memory.
    #[error("two arrays of the group have the same memory; copy one of them")]
    Overlap,
    /// There is nothing to split.
    #[error("reducescatter needs at least one dimension to split, got a scalar")]
    ScalarScatter,
    /// MXNet did not run the operation because what computes its input has failed.
    #[error("the computation of the input has failed")]
    Skipped,
    /// The engine refused or failed an operation.
    #[error(transparent)]
    Engine(#[from] hvd_engine::Error),
}

impl Error {
    /// Whether MXNet as a whole cannot be used, not only this array.
    pub fn is_unusable_library(&self) -> bool {
        use Error::{MissingSymbol, NotLoaded, NotLookedFor, UnknownLayout};
        matches!(
            self,
            NotLoaded(_) | NotLookedFor | MissingSymbol(_) | UnknownLayout
        )
    }
}
