//! The launchers that are known: which variables tell a process its rank, and what else they tell.
//! The order is that of precedence; why one comes before another stands beside it.

/// The names of one launcher's variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Launcher {
    /// What people type.
    pub(crate) command: &'static str,
    pub(crate) rank: &'static str,
    /// None if it tells the rank alone.
    pub(crate) size: Option<&'static str>,
    /// Must be set, too, for the others to mean anything.
    pub(crate) with: Option<&'static str>,
    pub(crate) local_size: Option<&'static str>,
    /// The host as the launcher calls it.
    pub(crate) node: Option<&'static str>,
    /// Variables whose values together belong to no other job of this user.
    pub(crate) job: &'static [&'static str],
    pub(crate) wire_up: WireUp,
}

/// What a launcher offers to pass a value from rank 0 to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireUp {
    /// PMIx, if `PMIX_NAMESPACE` is set.
    Pmix,
    /// The PMI-1 protocol, if `PMI_FD` or `PMI_PORT` is set.
    Pmi,
    /// Either, as the user has chosen.
    Any,
    /// Neither.
    None,
}

const fn launcher(command: &'static str, rank: &'static str) -> Launcher {
    Launcher {
        command,
        rank,
        size: None,
        with: None,
        local_size: None,
        node: None,
        job: &[],
        wire_up: WireUp::None,
    }
}

/// Set by `torchrun` beside `RANK` and `WORLD_SIZE`, which others set as well.
const TORCHRUN: Launcher = Launcher {
    size: Some("WORLD_SIZE"),
    with: Some("TORCHELASTIC_RUN_ID"),
    local_size: Some("LOCAL_WORLD_SIZE"),
    job: &[
        "TORCHELASTIC_RUN_ID",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RESTART_COUNT",
    ],
    ..launcher("torchrun", "RANK")
};

pub(crate) const OPEN_MPI: Launcher = Launcher {
    size: Some("OMPI_COMM_WORLD_SIZE"),
    local_size: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
    job: &["PMIX_NAMESPACE"],
    wire_up: WireUp::Pmix,
    ..launcher("mpirun", "OMPI_COMM_WORLD_RANK")
};

const MVAPICH: Launcher = Launcher {
    size: Some("MV2_COMM_WORLD_SIZE"),
    local_size: Some("MV2_COMM_WORLD_LOCAL_SIZE"),
    wire_up: WireUp::Pmi,
    ..launcher("mpirun_rsh", "MV2_COMM_WORLD_RANK")
};

/// IBM's launcher of Spectrum MPI.
const JSRUN: Launcher = Launcher {
    size: Some("JSM_NAMESPACE_SIZE"),
    local_size: Some("JSM_NAMESPACE_LOCAL_SIZE"),
    job: &["LSB_JOBID", "JSM_JSRUN_NUMBER"],
    wire_up: WireUp::Pmix,
    ..launcher("jsrun", "JSM_NAMESPACE_RANK")
};

/// MPICH and Intel MPI; `srun --mpi=pmi2` sets the same variables.
pub(crate) const HYDRA: Launcher = Launcher {
    size: Some("PMI_SIZE"),
    local_size: Some("MPI_LOCALNRANKS"),
    job: &["PALS_APID"],
    wire_up: WireUp::Pmi,
    ..launcher("mpiexec", "PMI_RANK")
};

/// PRRTE's launchers for programs that are not MPI's; `srun --mpi=pmix` sets the same variables.
pub(crate) const PMIX: Launcher = Launcher {
    job: &["PMIX_NAMESPACE"],
    wire_up: WireUp::Pmix,
    ..launcher("prterun", "PMIX_RANK")
};

const PALS: Launcher = Launcher {
    size: Some("PMI_SIZE"),
    job: &["PALS_APID"],
    wire_up: WireUp::Pmi,
    ..launcher("aprun", "PALS_RANKID")
};

/// Only a step is a task of `srun`: a shell of `salloc` or `sbatch` has the number of tasks as well.
/// After all that a daemon of Slurm may have started, because that inherits the daemon's step.
pub(crate) const SLURM: Launcher = Launcher {
    size: Some("SLURM_STEP_NUM_TASKS"),
    with: Some("SLURM_STEP_ID"),
    node: Some("SLURMD_NODENAME"),
    job: &[
        "SLURM_CLUSTER_NAME",
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "SLURM_RESTART_COUNT",
    ],
    wire_up: WireUp::Any,
    ..launcher("srun", "SLURM_PROCID")
};

/// Cray's older launcher.
const ALPS: Launcher = Launcher {
    job: &["ALPS_APP_ID"],
    ..launcher("aprun", "ALPS_APP_PE")
};

/// Whoever else sets what PyTorch reads. Last: scripts set them from another launcher's.
pub(crate) const PYTORCH: Launcher = Launcher {
    size: Some("WORLD_SIZE"),
    local_size: Some("LOCAL_WORLD_SIZE"),
    job: &["MASTER_ADDR", "MASTER_PORT"],
    ..launcher("torchrun", "RANK")
};

/// The user, or a program of theirs.
pub(crate) const BY_HAND: Launcher = Launcher {
    size: Some("HOROVOD_SIZE"),
    wire_up: WireUp::Any,
    ..launcher("HOROVOD_RANK and HOROVOD_SIZE", "HOROVOD_RANK")
};

/// A communicator of `mpi4py`.
pub(crate) const COMMUNICATOR: Launcher = launcher("hvd.init(comm=...)", "");

/// By precedence.
pub(crate) static LAUNCHERS: [Launcher; 10] = [
    TORCHRUN, OPEN_MPI, MVAPICH, JSRUN, HYDRA, PMIX, PALS, SLURM, ALPS, PYTORCH,
];
