//! Settings of the work itself: how ranks talk, what travels together, which algorithm moves it.

use super::{Setting, SettingGroup, ValueKind, name, setting};

pub(super) const COMMUNICATION: SettingGroup = SettingGroup {
    title: "Communication",
    about: "Who moves the bytes, and how long a rank waits for another one.",
    settings: &[
        setting(
            name::CONTROLLER,
            ValueKind::OneOf(&["gloo", "mpi"], "`gloo` or `mpi`"),
            "gloo",
            "Who negotiates; `gloo` is Horovod's own transport, `mpi` is not in this build.",
        )
        .flag("--gloo")
        .key("controller"),
        setting(
            name::CPU_OPERATIONS,
            ValueKind::OneOf(&["gloo", "mpi", "ccl"], "`gloo`, `mpi` or `ccl`"),
            "gloo",
            "Who moves tensors in main memory; `mpi` and `ccl` are not in this build.",
        )
        .flag("--gloo")
        .key("controller"),
        setting(
            name::TRANSPORT,
            ValueKind::OneOf(&["auto", "shm", "tcp"], "`auto`, `shm` or `tcp`"),
            "auto",
            "What moves tensors between ranks; `auto` takes shared memory inside a host and TCP between \
             hosts.",
        ),
        ENCRYPT,
        setting(
            name::IGNORE_LAUNCHER,
            ValueKind::Flag,
            "0",
            "1 makes a process that another launcher started (`mpirun`, `srun`, `torchrun`) a job of \
             its own; otherwise `init()` refuses to train alone.",
        ),
        setting(
            name::TIMEOUT,
            ValueKind::PositiveSeconds,
            "30",
            "How long ranks wait for each other at init, and for a peer that makes no progress.",
        )
        .flag("--gloo-timeout-seconds")
        .key("library_options.gloo_timeout_seconds"),
        setting(
            name::PORT_RANGE,
            ValueKind::Ports,
            "",
            "First and last of the ports at which ranks may listen for each other; any free port \
             if not set.",
        )
        .flag("--port-range"),
        setting(
            name::TCP_CONNECTIONS,
            ValueKind::Positive,
            "",
            "Number of TCP connections, up to 64, that carry tensors between two ranks without common \
             memory; not set, 2 between hosts and 1 inside a host.",
        ),
        setting(
            name::TCP_CONGESTION,
            ValueKind::Text("the name of an algorithm such as `cubic`"),
            "",
            "Congestion control of TCP connections; not set, that of the system, or `cubic` if that \
             is `bbr`.",
        ),
    ],
};

const ENCRYPT: Setting = setting(
    name::ENCRYPT,
    ValueKind::OneOf(&["control", "all"], "`control` or `all`"),
    "control",
    "What is encrypted and protected from changes on TCP connections between ranks: `control` covers \
     everything but the contents of tensors, `all` covers those too, by AES-256-GCM.",
);

pub(super) const OPERATIONS: SettingGroup = SettingGroup {
    title: "Operations",
    about: "What travels together, and what the results are.",
    settings: &[
        setting(
            name::FUSION_THRESHOLD,
            ValueKind::Bytes,
            "134217728",
            "Largest sum of small tensors that travel as one; 0 turns fusion off. The option and \
             the key count in units of 1048576 bytes.",
        )
        .flag("--fusion-threshold-mb")
        .key("params.fusion_threshold_mb"),
        setting(
            name::CYCLE_TIME,
            ValueKind::Milliseconds,
            "0",
            "Least time between two rounds of negotiation; 0 answers as soon as a tensor is ready.",
        )
        .flag("--cycle-time-ms")
        .key("params.cycle_time_ms"),
        setting(
            name::CACHE_CAPACITY,
            ValueKind::Count,
            "1024",
            "Number of tensors whose negotiation is remembered; 0 remembers none.",
        )
        .flag("--cache-capacity")
        .key("params.cache_capacity"),
        setting(
            name::DISABLE_GROUP_FUSION,
            ValueKind::Flag,
            "0",
            "1 keeps the tensors of a group from being fused with others.",
        ),
        setting(
            name::PLAN,
            ValueKind::Flag,
            "1",
            "1 executes steps that are always the same by a plan, without negotiation; 0 always \
             negotiates.",
        ),
        setting(
            name::CONTROL_FAN_OUT,
            ValueKind::Positive,
            "",
            "Ranks of its host, and other hosts, that one rank speaks for when ranks agree on what to \
             do; not set, 8 in jobs of more than 32 ranks, and in smaller ones all speak to rank 0.",
        ),
        setting(
            name::DYNAMIC_PROCESS_SETS,
            ValueKind::Flag,
            "0",
            "1 allows process sets to be added and removed after init.",
        ),
        setting(
            name::JOIN_AVERAGE,
            ValueKind::OneOf(&["all", "contributors"], "`all` or `contributors`"),
            "all",
            "What an average is divided by while some ranks have joined: all ranks, or only those \
             that contributed.",
        ),
        setting(
            name::DETERMINISTIC,
            ValueKind::Flag,
            "0",
            "1 makes results of floating point reductions equal, bit for bit, from run to run: tensors \
             are not fused, so none depends on what happens to be ready with it.",
        ),
        THREAD_AFFINITY,
    ],
};

const THREAD_AFFINITY: Setting = setting(
    name::THREAD_AFFINITY,
    ValueKind::Cores,
    "",
    "Core that the engine's thread of each process on a host is bound to, in order of local rank.",
)
.flag("--thread-affinity")
.key("library_options.thread_affinity");

pub(super) const ALGORITHMS: SettingGroup = SettingGroup {
    title: "Algorithms",
    about: "Which algorithm moves large tensors. One that is set is left alone by autotuning.",
    settings: &[
        setting(
            name::HIERARCHICAL_ALLREDUCE,
            ValueKind::Flag,
            "",
            "1 reduces inside each host first, then between hosts; 0 never does. Not set, it is done \
             if all hosts have equally many ranks.",
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
            "1 reduces along hosts and along local ranks, both at once; 0 never does.",
        )
        .flag("--torus-allreduce, --no-torus-allreduce")
        .key("params.torus_allreduce")
        .comes_with("GPU support"),
        setting(
            name::ADASUM_CHUNK_SIZE,
            ValueKind::Bytes,
            "1073741824",
            "Largest piece of a tensor that Adasum sends at once over MPI.",
        )
        .comes_with("MPI support"),
    ],
};
