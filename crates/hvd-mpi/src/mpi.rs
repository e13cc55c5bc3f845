//! The one MPI of this process: opened and initialized once, used by every session, left at exit.
//!
//! - `MPI-1` MPI is finalized only if it was initialized here and every session ended well.
//! - `MPI-2` after a failure, or without any session that ended, it is aborted instead.
//! - `MPI-3` a forked child never calls it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hvd_config::{MpiConfig, MpiThreads};
use hvd_transport::{DataFabric, FabricError, FabricSource};
use hvd_types::Placement;

use crate::fabric::MpiFabric;
use crate::ffi::{Calls, on_exit_call};
use crate::library_choice::{ChosenLibrary, choose};
use crate::{Error, Result, ThreadLevel};

/// An initialized MPI.
#[derive(Debug)]
pub struct Mpi {
    library: ChosenLibrary,
    /// A communicator of all ranks that nothing else uses.
    communicator: usize,
    level: ThreadLevel,
    rank: c_int,
    size: c_int,
    initialized_here: bool,
    /// Whether the last session ended well.
    ended_well: AtomicBool,
    /// The process that initialized it (`MPI-3`).
    process: u32,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All ranks agreed to leave.
    Peaceful,
    /// A rank failed, or this one could not join.
    Failed,
}

static OPENED: OnceLock<Arc<Mpi>> = OnceLock::new();

/// Held while MPI is being opened, which must happen once.
static OPENING: Mutex<()> = Mutex::new(());

/// Opens and initializes the MPI of this process; later calls return the same. Every rank must call
/// it, before anything else talks to the launcher: PMIx of Open MPI 4 does not work the other way round.
pub fn open(config: &MpiConfig) -> Result<Arc<Mpi>> {
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mpi) = OPENED.get() {
        return Ok(Arc::clone(mpi));
    }
    let mpi = Arc::new(Mpi::initialize(choose(config)?, config)?);
    let version = mpi.version();
    let Mpi { library, level, .. } = &*mpi;
    tracing::info!(
        "MPI: `{version}` from `{}`, {}, {level:?}",
        library.name,
        library.abi
    );
    // It is set here only.
    let _ = OPENED.set(Arc::clone(&mpi));
    if mpi.initialized_here {
        on_exit_call(leave_at_exit);
    }
    Ok(mpi)
}

/// The MPI that [`open`] has opened.
pub fn opened() -> Option<&'static Arc<Mpi>> {
    OPENED.get()
}

impl Mpi {
    fn initialize(library: ChosenLibrary, config: &MpiConfig) -> Result<Self> {
        let calls = &*library.calls;
        if calls.is_finalized()? {
            return Err(Error::Finalized);
        }
        let initialized_here = !calls.is_initialized()?;
        let level = if initialized_here {
            if config.launcher.is_none() {
                return Err(Error::NoLauncher);
            }
            initialize_here(calls, config.threads)?
        } else {
            calls.thread_level()?
        };
        require_threads(calls, level, initialized_here)?;
        if initialized_here {
            calls.return_errors()?;
        }
        let byte_size = calls.byte_size()?;
        if byte_size != 1 {
            let text = format!("MPI_BYTE has {byte_size} bytes; the ABI of the library is unknown");
            return Err(Error::Call(crate::CallError {
                function: "MPI_Type_size",
                text,
            }));
        }
        let (rank, size) = (calls.rank()?, calls.size()?);
        let communicator = calls.duplicate_world()?;
        Ok(Self {
            communicator,
            level,
            rank,
            size,
            initialized_here,
            ended_well: AtomicBool::new(false),
            process: std::process::id(),
            library,
        })
    }

    /// The library's name and version in one line, in its own words.
    pub fn version(&self) -> String {
        let version = self.library.calls.version();
        let line = version.lines().next().unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// This process's rank in `MPI_COMM_WORLD`, and the size of that.
    pub fn place(&self) -> (i64, i64) {
        (i64::from(self.rank), i64::from(self.size))
    }

    /// From how many threads it may be called.
    pub fn thread_level(&self) -> ThreadLevel {
        self.level
    }

    /// Fails unless this process has the same place in MPI as in the job.
    pub fn check_place(&self, placement: &Placement) -> Result<()> {
        let (rank, size) = (placement.rank.number(), placement.size);
        let (mpi_rank, mpi_size) = self.place();
        if (i64::from(rank), i64::from(size)) == (mpi_rank, mpi_size) {
            return Ok(());
        }
        Err(Error::WrongPlace {
            rank,
            size,
            mpi_rank,
            mpi_size,
            version: self.version(),
            library: self.library.name.clone(),
        })
    }

    /// Remembers how a session ended, for the end of the process.
    pub fn session_ended(&self, ending: Ending) {
        let ended_well = ending == Ending::Peaceful;
        self.ended_well.store(ended_well, Ordering::Release);
    }

    /// Ends the job if the program, which initialized MPI itself, is about to finalize it although
    /// a rank has failed: that would never return. For the end of the program.
    pub fn abort_before_finalize(&self) {
        let has_failed = !self.ended_well.load(Ordering::Acquire);
        if has_failed && !self.initialized_here && self.is_alive_here() {
            self.library.calls.abort(1);
        }
    }

    pub(crate) fn calls(&self) -> &Arc<dyn Calls> {
        &self.library.calls
    }

    pub(crate) fn communicator(&self) -> usize {
        self.communicator
    }

    /// Whether it may be called at all (`MPI-3`).
    pub(crate) fn is_alive_here(&self) -> bool {
        self.process == std::process::id()
            && self
                .library
                .calls
                .is_finalized()
                .is_ok_and(|finalized| !finalized)
    }
}

impl FabricSource for MpiSource {
    fn open(&self, meeting: u64) -> std::result::Result<Box<dyn DataFabric>, FabricError> {
        Ok(Box::new(MpiFabric::new(Arc::clone(&self.0), meeting)))
    }
}

/// Where sessions get their streams from.
#[derive(Debug)]
struct MpiSource(Arc<Mpi>);

/// The data plane of a job, for its transport.
pub fn fabric_source(mpi: &Arc<Mpi>) -> Arc<dyn FabricSource> {
    Arc::new(MpiSource(Arc::clone(mpi)))
}

fn initialize_here(calls: &dyn Calls, threads: MpiThreads) -> Result<ThreadLevel> {
    let wanted = match threads {
        MpiThreads::Enabled => ThreadLevel::Multiple,
        // Horovod's own calls come from several threads, one after another.
        MpiThreads::Disabled => ThreadLevel::Serialized,
    };
    Ok(calls.initialize(wanted)?)
}

/// Refuses an MPI that may be called from one thread only: which thread runs the engine's cycle changes.
fn require_threads(calls: &dyn Calls, level: ThreadLevel, initialized_here: bool) -> Result<()> {
    match level {
        ThreadLevel::OneThread if initialized_here => Err(Error::NoThreads {
            version: calls.version(),
        }),
        ThreadLevel::OneThread => Err(Error::OneThread),
        ThreadLevel::Serialized => {
            tracing::warn!(
                "MPI allows calls from one thread at a time; do not call MPI (mpi4py) while Horovod \
                 is initialized, or initialize MPI with `MPI_THREAD_MULTIPLE`"
            );
            Ok(())
        }
        ThreadLevel::Multiple => Ok(()),
    }
}

/// `MPI-1` and `MPI-2`, for an MPI that was initialized here.
fn leave_at_exit(status: c_int) {
    let Some(mpi) = OPENED.get() else {
        return;
    };
    if !mpi.is_alive_here() {
        return;
    }
    if mpi.ended_well.load(Ordering::Acquire) {
        if let Err(error) = mpi.library.calls.finalize() {
            tracing::info!("{error}");
        }
    } else {
        mpi.library.calls.abort(status.max(1));
    }
}
