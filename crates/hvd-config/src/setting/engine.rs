//! Settings of the work itself: how ranks talk, what travels together, which algorithm moves it.

use super::{Setting, SettingGroup, ValueKind, name, setting};

pub(super) const COMMUNICATION: SettingGroup = SettingGroup {
    title: "Communication",
    about: "How data moves between ranks, and how long a rank waits for another.",
    settings: &[
        setting(
            name::CONTROLLER,
            ValueKind::OneOf(&["gloo", "mpi"], "`gloo` or `mpi`"),
            "gloo",
            "`mpi` says that an MPI launcher starts the ranks; negotiation uses Horovod's own connections \
             either way.",
        )
        .flag("--gloo")
        .key("controller"),
        setting(
            name::CPU_OPERATIONS,
            ValueKind::OneOf(&["gloo", "mpi", "ccl"], "`gloo`, `mpi` or `ccl`"),
            "gloo",
            "What moves tensors between hosts: `gloo` is Horovod's own TCP, `mpi` the MPI library of the \
             `mpirun` that started the ranks; `ccl` is not supported yet.",
        )
        .flag("--gloo")
        .key("controller"),
        setting(
            name::TRANSPORT,
            ValueKind::OneOf(&["auto", "shm", "tcp"], "`auto`, `shm` or `tcp`"),
            "auto",
            "How tensors move between ranks; `auto` uses shared memory inside a host and TCP between \
             hosts.",
        ),
        ENCRYPT,
        setting(
            name::IGNORE_LAUNCHER,
            ValueKind::Flag,
            "0",
            "1 makes each process started by another launcher (`mpirun`, `srun`, `torchrun`) a job of \
             one rank; 0 makes `init()` raise an error there.",
        ),
        setting(
            name::TIMEOUT,
            ValueKind::PositiveSeconds,
            "30",
            "Timeout for ranks to meet in `init()`, and for a peer that makes no progress.",
        )
        .flag("--gloo-timeout-seconds")
        .key("library_options.gloo_timeout_seconds"),
        setting(
            name::PORT_RANGE,
            ValueKind::Ports,
            "",
            "First and last port on which ranks may listen; any free port if not set.",
        )
        .flag("--port-range"),
        setting(
            name::TCP_CONNECTIONS,
            ValueKind::Positive,
            "",
            "Number of TCP connections, up to 64, that carry tensors between two ranks without shared \
             memory; if not set, 2 between hosts and 1 inside a host.",
        ),
        setting(
            name::TCP_CONGESTION,
            ValueKind::Text("the name of an algorithm such as `cubic`"),
            "",
            "Congestion control of TCP connections; if not set, the system's default, or `cubic` where \
             that is `bbr`.",
        ),
    ],
};

const ENCRYPT: Setting = setting(
    name::ENCRYPT,
    ValueKind::OneOf(&["control", "all"], "`control` or `all`"),
    "control",
    "What is encrypted and authenticated on TCP connections between ranks (AES-256-GCM): `control` \
     covers everything but the contents of tensors, `all` includes them.",
);

pub(super) const OPERATIONS: SettingGroup = SettingGroup {
    title: "Operations",
    about: "Which tensors are fused, how ranks negotiate, and what results mean.",
    settings: &[
        setting(
            name::FUSION_THRESHOLD,
            ValueKind::Bytes,
            "134217728",
            "Largest total size of tensors that are fused into one operation; 0 turns fusion off. \
             The option and the key are in MiB.",
        )
        .flag("--fusion-threshold-mb")
        .key("params.fusion_threshold_mb"),
        setting(
            name::CYCLE_TIME,
            ValueKind::Milliseconds,
            "0",
            "Minimum time between two negotiations; 0 negotiates as soon as a tensor is ready.",
        )
        .flag("--cycle-time-ms")
        .key("params.cycle_time_ms"),
        setting(
            name::CACHE_CAPACITY,
            ValueKind::Count,
            "1024",
            "Capacity of the response cache, in tensors; 0 turns it off.",
        )
        .flag("--cache-capacity")
        .key("params.cache_capacity"),
        setting(
            name::DISABLE_GROUP_FUSION,
            ValueKind::Flag,
            "0",
            "1 never fuses tensors of a group with tensors outside of it.",
        ),
        setting(
            name::SCHEDULE,
            ValueKind::Flag,
            "1",
            "1 runs repeated steps by a schedule, without negotiation; 0 always \
             negotiates.",
        ),
        setting(
            name::CONTROL_FAN_OUT,
            ValueKind::Positive,
            "",
            "Maximum number of children of a rank in the control tree, on its own host and on other \
             hosts; if not set, 8 in jobs of more than 32 ranks, while in smaller jobs all ranks \
             report to rank 0.",
        ),
        setting(
            name::DYNAMIC_PROCESS_SETS,
            ValueKind::Flag,
            "0",
            "1 allows adding and removing process sets after `init()`.",
        ),
        setting(
            name::JOIN_AVERAGE,
            ValueKind::OneOf(&["all", "contributors"], "`all` or `contributors`"),
            "all",
            "Divisor of an average while some ranks have joined: the number of all ranks, or of those \
             that contributed.",
        ),
        setting(
            name::DETERMINISTIC,
            ValueKind::Flag,
            "0",
            "1 makes floating-point reductions bitwise reproducible from run to run: tensors are not \
             fused, so no result depends on what else was ready.",
        ),
        THREAD_AFFINITY,
    ],
};

const THREAD_AFFINITY: Setting = setting(
    name::THREAD_AFFINITY,
    ValueKind::Cores,
    "",
    "Core for the engine thread of each process on a host, in order of local rank.",
)
.flag("--thread-affinity")
.key("library_options.thread_affinity");

pub(super) const ALGORITHMS: SettingGroup = SettingGroup {
    title: "Algorithms",
    about: "Algorithms for large tensors. Autotuning does not change one that is set.",
    settings: &[
        setting(
            name::HIERARCHICAL_ALLREDUCE,
            ValueKind::Flag,
            "",
            "1 reduces inside each host first, then between hosts; 0 never does. If not set, it is on \
             when all hosts have the same number of ranks.",
        )
        .flag("--hierarchical-allreduce, --no-hierarchical-allreduce")
        .key("params.hierarchical_allreduce"),
        setting(
            name::HIERARCHICAL_ALLGATHER,
            ValueKind::Flag,
            "",
            "1 gathers inside each host first, then between hosts; 0 never does.",
        )
        .flag("--hierarchical-allgather, --no-hierarchical-allgather")
        .key("params.hierarchical_allgather"),
        setting(
            name::TORUS_ALLREDUCE,
            ValueKind::Flag,
            "",
            "1 reduces across hosts and across local ranks at the same time; 0 never does.",
        )
        .flag("--torus-allreduce, --no-torus-allreduce")
        .key("params.torus_allreduce")
        .comes_with("GPU support"),
        setting(
            name::ADASUM_CHUNK_SIZE,
            ValueKind::Bytes,
            "1073741824",
            "Largest part of a tensor that Adasum sends at once over MPI.",
        )
        .comes_with("MPI support"),
    ],
};
