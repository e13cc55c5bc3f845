"""Horovod for MXNet: collectives on NDArrays, and what trains with them."""

from __future__ import annotations

import atexit as _atexit
from collections.abc import Sequence
from typing import Any

try:
    import mxnet as _mxnet  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "mxnet":
        raise
    raise ImportError(
        "horovod.mxnet needs MXNet, which is not installed: pip install mxnet 'numpy<1.24'"
    ) from _error

from horovod.common import basics as _basics
from horovod.common.basics import (
    counters,
    cross_rank,
    cross_ranks,
    cross_size,
    gloo_enabled,
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
    check_extension,
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
from horovod.common.util import Adasum, Average, Max, Min, Product, Sum, split_list
from horovod.mxnet import mpi_world as _mpi_world
from horovod.mxnet.compression import Compression
from horovod.mxnet.engine import finish_at_exit as _finish_at_exit
from horovod.mxnet.functions import allgather_object, broadcast_object, broadcast_parameters
from horovod.mxnet.mpi_ops import (
    allgather,
    allreduce,
    allreduce_,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
    reducescatter,
)
from horovod.mxnet.optimizer import DistributedOptimizer
from horovod.mxnet.trainer import DistributedTrainer


def init(comm: Any = None, process_sets: str | Sequence[ProcessSet] | None = None) -> None:
    """Joins the job that a launcher started this process for; does nothing if this was done before.

    A program that has imported `mpi4py` and left the initialization of MPI to Horovod gets an
    initialized MPI.
    """
    mpi = _mpi_world.initialize()
    _basics.init(comm, process_sets)
    # Once, and after the registration of what it must precede.
    _atexit.unregister(_finish_at_exit)
    _atexit.register(_finish_at_exit)
    if mpi is not None and comm is None:
        _mpi_world.connect(mpi)


__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "DistributedTrainer",
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
    "allreduce_",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_parameters",
    "ccl_built",
    "check_extension",
    "counters",
    "cross_rank",
    "cross_ranks",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
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
    "split_list",
    "start_timeline",
    "stop_timeline",
]
