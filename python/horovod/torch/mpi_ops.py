"""The collectives on PyTorch tensors.

`*_async` returns a handle for `poll` and `synchronize`; a trailing underscore writes the result
into the tensor that was passed. The forms that return a new tensor are differentiable, and can be
part of what `torch.compile` compiles. `horovod.torch.ops` has one file for each operation.
"""

from __future__ import annotations

from horovod.common import collectives
from horovod.common.basics import _basics as _basics
from horovod.common.basics import (
    cross_rank,
    cross_size,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
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
    gpu_available,
    mpi_built,
    nccl_built,
    rocm_built,
)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.handles import pending as _handle_map  # noqa: F401
from horovod.common.handles import poll, synchronize
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    check_installed_version,
    get_average_backwards_compatibility_fun,
    handle_average_backwards_compatibility,
    num_rank_is_power_2,
)
from horovod.torch.compatibility import (
    HorovodAllgather,
    HorovodAllreduce,
    HorovodAlltoall,
    HorovodBroadcast,
    HorovodGroupedAllgather,
    HorovodGroupedAllreduce,
    HorovodGroupedReducescatter,
    HorovodReducescatter,
)
from horovod.torch.compression import Compression
from horovod.torch.ops.allgather import allgather, allgather_async
from horovod.torch.ops.allreduce import allreduce, allreduce_, allreduce_async, allreduce_async_
from horovod.torch.ops.alltoall import alltoall, alltoall_async
from horovod.torch.ops.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from horovod.torch.ops.grouped_allgather import grouped_allgather, grouped_allgather_async
from horovod.torch.ops.grouped_allreduce import (
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from horovod.torch.ops.grouped_reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
)
from horovod.torch.ops.reducescatter import reducescatter, reducescatter_async
from horovod.torch.ops.sparse_allreduce import sparse_allreduce_async

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "HorovodAllgather",
    "HorovodAllreduce",
    "HorovodAlltoall",
    "HorovodBroadcast",
    "HorovodGroupedAllgather",
    "HorovodGroupedAllreduce",
    "HorovodGroupedReducescatter",
    "HorovodInternalError",
    "HorovodReducescatter",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "ccl_built",
    "check_installed_version",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "get_average_backwards_compatibility_fun",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "num_rank_is_power_2",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until every rank has arrived."""
    collectives.barrier(process_set)


def join(device: int = -1) -> int:
    """Waits until every rank has called this, taking part in what the others still allreduce.

    For a rank that has run out of data while others have not: it contributes nothing to Sum, Min,
    Max and Product, and Average still divides by the number of all ranks. Returns the rank that
    joined last, whose model has seen the most data. `device` is not used on the CPU.
    """
    return collectives.join()
