"""The collectives on NumPy arrays.

`*_async` returns a handle for `poll` and `synchronize`; a trailing underscore writes the result
into the array that was passed. Inputs may be anything NumPy can turn into an array, except where
the result goes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from horovod.common import collectives
from horovod.common.collectives import Output, join
from horovod.common.handles import poll, synchronize
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average
from horovod.numpy.grouped_ops import (
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
)
from horovod.numpy.tensors import Array, from_output, splits_list, view, writable_view

__all__ = [
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
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "synchronize",
]


def allreduce(
    tensor: npt.ArrayLike,
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Combines the arrays of all ranks element by element and returns the result."""
    handle = allreduce_async(
        tensor,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )
    return synchronize(handle)


def allreduce_async(
    tensor: npt.ArrayLike,
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `allreduce` and returns its handle."""
    array = np.asarray(tensor, order="C")
    result = np.empty_like(array, order="C", subok=False)
    return collectives.allreduce(
        view(array),
        view(result),
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        lambda _: result,
    )


def allreduce_(
    tensor: Array,
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Combines the arrays of all ranks in place and returns the array that was passed."""
    handle = allreduce_async_(
        tensor,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )
    return synchronize(handle)


def allreduce_async_(
    tensor: Array,
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `allreduce_` and returns its handle."""
    target = writable_view(tensor)
    scaling = (prescale_factor, postscale_factor)
    return collectives.allreduce(target, target, name, op, scaling, process_set, lambda _: tensor)


def allgather(
    tensor: npt.ArrayLike,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Concatenates the arrays of all ranks; only their first dimensions may differ."""
    return synchronize(allgather_async(tensor, name=name, process_set=process_set))


def allgather_async(
    tensor: npt.ArrayLike,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `allgather` and returns its handle."""
    array = np.asarray(tensor, order="C")
    dtype = array.dtype
    return collectives.allgather(
        view(array), name, process_set, lambda output: from_output(output, dtype)
    )


def broadcast(
    tensor: npt.ArrayLike,
    root_rank: int,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Returns the root's array; the array passed on the other ranks gives shape and type."""
    return synchronize(broadcast_async(tensor, root_rank, name=name, process_set=process_set))


def broadcast_async(
    tensor: npt.ArrayLike,
    root_rank: int,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `broadcast` and returns its handle."""
    array = np.asarray(tensor)
    result = np.empty_like(array, order="C", subok=False)
    if collectives.is_root(root_rank):
        np.copyto(result, array)
    return broadcast_async_(result, root_rank, name=name, process_set=process_set)


def broadcast_(
    tensor: Array,
    root_rank: int,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Overwrites the array with the root's and returns it."""
    return synchronize(broadcast_async_(tensor, root_rank, name=name, process_set=process_set))


def broadcast_async_(
    tensor: Array,
    root_rank: int,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `broadcast_` and returns its handle."""
    target = writable_view(tensor)
    return collectives.broadcast(target, root_rank, name, process_set, lambda _: tensor)


def alltoall(
    tensor: npt.ArrayLike,
    splits: npt.ArrayLike | Sequence[int] | None = None,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends `splits[r]` rows to each rank r (equal parts by default), returns the received rows.

    With splits the result is a pair: the rows, and how many of them came from each rank.
    """
    handle = alltoall_async(tensor, splits, name=name, process_set=process_set)
    rows, received_splits = synchronize(handle)
    return rows if splits is None else (rows, received_splits)


def alltoall_async(
    tensor: npt.ArrayLike,
    splits: npt.ArrayLike | Sequence[int] | None = None,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `alltoall` and returns its handle; synchronize always gives the pair."""
    array = np.asarray(tensor, order="C")
    dtype = array.dtype

    def finish(output: Output) -> tuple[Array, Array]:
        return from_output(output, dtype), np.array(output.received_splits, dtype=np.int32)

    return collectives.alltoall(view(array), splits_list(splits), name, process_set, finish)


def reducescatter(
    tensor: npt.ArrayLike,
    *,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array:
    """Combines the arrays of all ranks (Average or Sum) and returns this rank's share of rows."""
    handle = reducescatter_async(
        tensor,
        name=name,
        op=op,
        process_set=process_set,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
    )
    return synchronize(handle)


def reducescatter_async(
    tensor: npt.ArrayLike,
    *,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts `reducescatter` and returns its handle."""
    array = np.asarray(tensor, order="C")
    dtype = array.dtype
    return collectives.reducescatter(
        view(array),
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        lambda output: from_output(output, dtype),
    )


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until every rank has arrived."""
    collectives.barrier(process_set)
