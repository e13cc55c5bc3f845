"""Horovod for JAX: collectives on arrays and trees, at once and in compiled programs."""

from __future__ import annotations

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "jax":
        raise
    raise ImportError("horovod.jax needs JAX, which is not installed: pip install jax") from _error

from horovod.common.basics import (
    counters,
    cross_rank,
    cross_ranks,
    cross_size,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_ranks,
    local_size,
    mpi_enabled,
    mpi_threads_supported,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from horovod.common.build import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    mpi_built,
    nccl_built,
    rocm_built,
)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import Adasum, Average, Max, Min, Product, Sum
from horovod.jax import elastic
from horovod.jax.compression import Compression
from horovod.jax.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.jax.grad import grad, value_and_grad
from horovod.jax.mpi_ops import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    reducescatter,
)
from horovod.jax.optimizer import DistributedGradientTransformation, DistributedOptimizer
from horovod.jax.sync_batch_norm import sync_batch_statistics

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedGradientTransformation",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "counters",
    "cross_rank",
    "cross_ranks",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grad",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_ranks",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "sync_batch_statistics",
    "value_and_grad",
]


def __getattr__(name: str) -> object:
    """`hvd.linen` and `hvd.nnx` need flax, which is imported with their first use."""
    if name not in ("linen", "nnx"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"horovod.jax.{name}")
