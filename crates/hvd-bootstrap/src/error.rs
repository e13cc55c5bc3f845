//! What can keep a rank from finding its job. Every text says what was seen and what to pass.

use hvd_types::Rank;

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a rank cannot find its job.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable of a launcher is not a number.
    #[error(
        "{variable}=`{value}`, which `{command}` sets, is not a number; correct it, or pass \
         HOROVOD_RANK and HOROVOD_SIZE"
    )]
    Malformed {
        /// What people type.
        command: &'static str,
        /// The variable.
        variable: &'static str,
        /// What it was set to.
        value: String,
    },
    /// Half of what a launcher tells.
    #[error(
        "{present} shows that `{command}` or a similar launcher started several processes, but \
         {missing} is not set, so this process does not know its rank and would train alone. \
         Something in between removes variables (a container with a clean environment, `sudo`): let \
         it pass {missing} on, pass HOROVOD_RANK and HOROVOD_SIZE, unset {present} if it is left \
         over from something else, or set HOROVOD_IGNORE_LAUNCHER=1 to run this process as a job of \
         its own"
    )]
    Incomplete {
        /// What people type.
        command: &'static str,
        /// The variable that is there, with its value.
        present: String,
        /// The one that is not.
        missing: &'static str,
    },
    /// A rank outside its job.
    #[error(
        "{rank_variable}={rank} must be less than {size_variable}={size}; both are set by \
         `{command}`: pass the right ones as HOROVOD_RANK and HOROVOD_SIZE"
    )]
    OutOfRange {
        /// What people type.
        command: &'static str,
        /// The variable of the rank.
        rank_variable: &'static str,
        /// Its value.
        rank: u32,
        /// The variable of the size.
        size_variable: &'static str,
        /// Its value.
        size: u32,
    },
    /// Two launchers tell different things.
    #[error(
        "the variables of two launchers contradict: {first} of `{first_command}`, but {second} of \
         `{second_command}`. Unset the ones that are left over, or pass the right rank and size as \
         HOROVOD_RANK and HOROVOD_SIZE"
    )]
    Contradiction {
        /// What people type.
        first_command: &'static str,
        /// The variables and their values.
        first: String,
        /// What people type.
        second_command: &'static str,
        /// The variables and their values.
        second: String,
    },
    /// A launcher among the ancestors whose variables did not arrive.
    #[error(
        "this process runs below `{command}` (process {process} {seen}), but the variables by which that \
         tells a process its rank have not reached it: it would train alone. Something in between cleans \
         the environment (`singularity exec --cleanenv`, `env -i`, `sudo`): omit that, or pass HOROVOD_RANK \
         and HOROVOD_SIZE; set HOROVOD_IGNORE_LAUNCHER=1 if this process is to be a job of its own"
    )]
    Hidden {
        /// What people type.
        command: &'static str,
        /// The ancestor that shows it.
        process: i32,
        /// What it is or has.
        seen: String,
    },
    /// Nothing tells how many ranks there are.
    #[error(
        "`{command}` tells each process its rank ({variable}) but not how many there are; pass \
         HOROVOD_SIZE with that number"
    )]
    NoSize {
        /// What people type.
        command: &'static str,
        /// The variable of the rank.
        variable: &'static str,
    },
    /// No way to the other ranks.
    #[error(
        "rank {rank} of {size} was started by `{command}`, which offers neither PMIx nor PMI and names no \
         job, so the ranks cannot find each other. Set HOROVOD_BOOTSTRAP_DIR to a directory of this job \
         alone that all ranks see, or give all ranks HOROVOD_RENDEZVOUS_ADDR and HOROVOD_RENDEZVOUS_PORT, \
         where rank 0 is to listen, and HOROVOD_SECRET_KEY_FILE"
    )]
    NoFacility {
        /// This rank.
        rank: Rank,
        /// How many there are.
        size: u32,
        /// What people type.
        command: &'static str,
    },
    /// Some of what a start by hand needs is missing.
    #[error("{missing} is not set although {present} is; {meaning}")]
    ByHand {
        /// The variable that is there.
        present: &'static str,
        /// The one that is not.
        missing: &'static str,
        /// What it is for.
        meaning: &'static str,
    },
    /// A list of ranks for a job of some of them that this rank is not in, or that makes no sense.
    #[error("init(comm={ranks:?}) on rank {rank} of {size}: {problem}")]
    Subset {
        /// The list.
        ranks: Vec<u32>,
        /// This rank.
        rank: Rank,
        /// How many there are.
        size: u32,
        /// What is wrong.
        problem: &'static str,
    },
    /// The launcher's way of passing values on does not work.
    #[error("rank {rank} cannot find the other ranks by {facility}: {reason}")]
    Facility {
        /// This rank.
        rank: Rank,
        /// Its name.
        facility: String,
        /// What happened, and what to do.
        reason: String,
    },
    /// Rank 0's announcement is not one.
    #[error(
        "what rank 0 announced is not of this version of Horovod; install the same on all hosts"
    )]
    Announcement,
    /// Rank 0's store cannot be reached at any of its addresses.
    #[error(
        "rank {rank} on host `{host}` cannot reach the key-value store of rank 0, tried {tried}; if a \
         firewall is in the way, open ports there and pass them as HOROVOD_PORT_RANGE=FIRST-LAST"
    )]
    Unreachable {
        /// This rank.
        rank: Rank,
        /// Its host.
        host: String,
        /// Addresses and what happened there.
        tried: String,
    },
    /// Some hosts do not reach each other.
    #[error("not all hosts of the job reach each other:\n{0}")]
    Routes(String),
    /// Some ranks never came to the store.
    #[error(
        "rank {rank} of {size} waited {seconds} s for {missing}. Their processes have not called \
         hvd.init() yet (HOROVOD_GLOO_TIMEOUT_SECONDS is how long to wait), or do not know that they \
         belong to this job: a container may hide the variables of `{command}` from some of them"
    )]
    Missing {
        /// This rank.
        rank: Rank,
        /// How many there are.
        size: u32,
        /// The ranks that are missing, as a text.
        missing: String,
        /// How long.
        seconds: u64,
        /// What people type.
        command: &'static str,
    },
    /// Rank 0 has ended, or given up, before all ranks had met.
    #[error(
        "rank {rank} of {size} was waiting for the others when rank 0, which serves the key-value store, \
         gave up or ended; the error of rank 0 says why"
    )]
    FirstRankLeft {
        /// This rank.
        rank: Rank,
        /// How many there are.
        size: u32,
    },
    /// A setting.
    #[error(transparent)]
    Config(#[from] hvd_config::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] hvd_rendezvous::Error),
    /// This machine.
    #[error("rank {rank} cannot {doing}: {source}")]
    System {
        /// This rank.
        rank: Rank,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the settings or variables are wrong, not the communication.
    pub fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::Malformed { .. }
                | Self::Incomplete { .. }
                | Self::OutOfRange { .. }
                | Self::Contradiction { .. }
                | Self::Hidden { .. }
                | Self::NoSize { .. }
                | Self::NoFacility { .. }
                | Self::ByHand { .. }
                | Self::Subset { .. }
                | Self::Config(_)
        )
    }
}
