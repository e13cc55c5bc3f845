//! What can go wrong with MPI before it moves anything.

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why MPI cannot be used. Every variant says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// None of the libraries that were tried could be opened.
    #[error(
        "no MPI library can be opened; set HOROVOD_MPI_LIBRARY to the `libmpi.so` of the `mpirun` that \
         started this process. Tried:\n{}",
        tried.join("\n")
    )]
    NoLibrary {
        /// Each library with the reason.
        tried: Vec<String>,
    },
    /// The library lacks a function or object of MPI.
    #[error("`{library}` has no `{symbol}`; set HOROVOD_MPI_LIBRARY to another MPI library")]
    MissingSymbol {
        /// What was opened.
        library: String,
        /// What it lacks.
        symbol: &'static str,
    },
    /// A process that no MPI launcher started would be alone in `MPI_COMM_WORLD`.
    #[error(
        "HOROVOD_CPU_OPERATIONS=mpi needs ranks that an MPI launcher started, and this process shows \
         no sign of one; start the job with `mpirun -np N python train.py` or `horovodrun --mpi -np N \
         python train.py`, or unset HOROVOD_CPU_OPERATIONS"
    )]
    NoLauncher,
    /// The program has finalized MPI, which cannot be initialized again.
    #[error(
        "MPI was finalized before `hvd.init()` and cannot be initialized again; call `hvd.init()` \
         before `MPI.Finalize()`, or unset HOROVOD_CPU_OPERATIONS"
    )]
    Finalized,
    /// MPI may be called from one thread only, and Horovod has several.
    #[error(
        "MPI was initialized for calls from one thread only, but Horovod calls it from several; put \
         `import mpi4py; mpi4py.rc.thread_level = \"multiple\"` before `from mpi4py import MPI`, or \
         unset HOROVOD_CPU_OPERATIONS"
    )]
    OneThread,
    /// The MPI library provides no more than calls from one thread.
    #[error(
        "`{version}` allows calls from one thread only, but Horovod calls it from several; use an MPI \
         that was built with thread support, or unset HOROVOD_CPU_OPERATIONS"
    )]
    NoThreads {
        /// The library, in its own words.
        version: String,
    },
    /// MPI and Horovod disagree about who this process is.
    #[error(
        "this process is rank {rank} of {size}, but rank {mpi_rank} of {mpi_size} in MPI (`{version}`, \
         opened from `{library}`). If the library is not that of the launcher, set HOROVOD_MPI_LIBRARY to \
         the `libmpi.so` of the `mpirun` that started this process; for a job of some of the ranks, \
         `hvd.init(comm=...)`, unset HOROVOD_CPU_OPERATIONS"
    )]
    WrongPlace {
        /// Horovod's rank.
        rank: u32,
        /// Horovod's size.
        size: u32,
        /// The rank in `MPI_COMM_WORLD`.
        mpi_rank: i64,
        /// The size of `MPI_COMM_WORLD`.
        mpi_size: i64,
        /// The library, in its own words.
        version: String,
        /// What was opened.
        library: String,
    },
    /// A call failed.
    #[error(
        "{0}; run the job with `mpirun` and the same MPI library, or unset HOROVOD_CPU_OPERATIONS"
    )]
    Call(#[from] CallError),
}

/// An error code of one of MPI's functions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{function} failed: {text}")]
pub struct CallError {
    /// The function.
    pub function: &'static str,
    /// MPI's own text.
    pub text: String,
}
