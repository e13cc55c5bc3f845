"""The collectives on PyTorch tensors.

`*_async` returns a handle for `poll` and `synchronize`; a trailing underscore writes the result
into the tensor that was passed. The forms that return a new tensor are differentiable, and can be
part of what `torch.compile` compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

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
from horovod.common.handles import pending, poll, synchronize
from horovod.common.handles import pending as _handle_map  # noqa: F401
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
from horovod.torch import dispatch
from horovod.torch.async_ops import (
    allgather_async,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    broadcast_async,
    broadcast_async_,
    reducescatter_async,
    sparse_allreduce_async,
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
from horovod.torch.compression import Compression, Compressor
from horovod.torch.grouped_async_ops import (
    grouped_allgather_async,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
)
from horovod.torch.grouped_ops import (
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
)
from horovod.torch.tensors import start_in_place

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


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines the tensors of all ranks element by element and returns the result."""
    op = handle_average_backwards_compatibility(op, average)
    compressed, ctx = compression.compress(tensor)
    scaling = (prescale_factor, postscale_factor)
    reduced = dispatch.allreduce(compressed, name, op, scaling, process_set)
    return compression.decompress(reduced, ctx)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines the tensors of all ranks in place and returns the tensor that was passed."""
    if average is not None:
        op = handle_average_backwards_compatibility(op, average)
    reduction = Average if op is None else op
    handle = start_in_place(
        tensor, name, reduction, prescale_factor, postscale_factor, process_set, True
    )
    if handle is None:
        handle = allreduce_async_(
            tensor, None, name, op, prescale_factor, postscale_factor, process_set
        )
    else:
        pending[handle] = tensor
    return synchronize(handle)


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Concatenates the tensors of all ranks; only their first dimensions may differ."""
    return dispatch.allgather(tensor, name, process_set)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Returns the root's tensor; the tensor passed on the other ranks gives shape and type."""
    return dispatch.broadcast(tensor, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Overwrites the tensor with the root's and returns it."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends `splits[r]` rows to each rank r (equal parts by default), returns the received rows.

    With splits the result is a pair: the rows, and how many of them came from each rank.
    """
    rows, received_splits = dispatch.alltoall(tensor, splits, name, process_set)
    return rows if splits is None else (rows, received_splits)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Combines the tensors of all ranks (Average or Sum) and returns this rank's share of rows."""
    compressed, ctx = compression.compress(tensor)
    scaling = (prescale_factor, postscale_factor)
    reduced = dispatch.reducescatter(compressed, name, op, scaling, process_set)
    return compression.decompress(reduced, ctx)


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
