//! Settings of GPUs and of the libraries that serve them or other clusters. All are for features to
//! come; those that have a form are checked already, so that a job's settings stay right.

use super::{SettingGroup, ValueKind, name, setting};

const GPU: &str = "GPU support";
const CCL: &str = "oneCCL support";

pub(super) const DEVICES: SettingGroup = SettingGroup {
    title: "GPUs and other libraries",
    about: "`NCCL_IB_DISABLE` and `DDL_OPTIONS` belong to other libraries, which check them.",
    settings: &[
        setting(
            name::NUM_NCCL_STREAMS,
            ValueKind::Positive,
            "1",
            "Number of streams for NCCL operations.",
        )
        .flag("--num-nccl-streams")
        .key("library_options.num_nccl_streams")
        .comes_with(GPU),
        setting(
            name::NCCL_IB_DISABLE,
            ValueKind::Text("0 or 1"),
            "",
            "1 stops NCCL from using InfiniBand; `--tcp` sets it.",
        )
        .flag("--tcp")
        .comes_with(GPU),
        setting(
            name::BATCH_D2D_MEMCOPIES,
            ValueKind::Flag,
            "1",
            "0 copies tensors into the fusion buffer one by one.",
        )
        .comes_with(GPU),
        setting(
            name::ENABLE_ASYNC_COMPLETION,
            ValueKind::Flag,
            "0",
            "1 completes operations on the GPU stream without waiting on the host.",
        )
        .comes_with(GPU),
        setting(
            name::ENABLE_XLA_OPS,
            ValueKind::Flag,
            "0",
            "1 lets XLA compile Horovod's operations; completion is then asynchronous too.",
        )
        .comes_with("XLA support"),
        setting(
            name::DISABLE_NVTX_RANGES,
            ValueKind::Flag,
            "0",
            "1 hides operations from NVIDIA's profilers.",
        )
        .comes_with(GPU),
        setting(
            name::MPI_THREADS_DISABLE,
            ValueKind::Flag,
            "0",
            "1 initializes MPI for calls from one thread at a time (`MPI_THREAD_SERIALIZED`).",
        )
        .flag("--mpi-threads-disable, --no-mpi-threads-disable")
        .key("library_options.mpi_threads_disable"),
        setting(
            name::MPI_LIBRARY,
            ValueKind::Text("a path of an MPI library"),
            "",
            "The `libmpi.so` to open if HOROVOD_CPU_OPERATIONS is `mpi`; found beside the launcher or by \
             the loader if not set.",
        ),
        setting(
            name::CCL_CACHE,
            ValueKind::Flag,
            "0",
            "1 lets oneCCL cache operations.",
        )
        .comes_with(CCL),
        setting(
            name::DDL_OPTIONS,
            ValueKind::Text("options of DDL"),
            "",
            "Options of IBM's DDL library.",
        )
        .comes_with("DDL support"),
    ],
};
