"""Collective operations on MXNet's arrays.

Allreduce and broadcast are pushed to MXNet's engine and return at once: MXNet orders them with
everything else that uses their arrays, and raises their errors where one of these is waited for.
Allgather, alltoall and reducescatter wait, because only then the size of the result is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx

from horovod.common.collectives import check_splits
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import (
    Adasum,
    Average,
    Sum,
    handle_average_backwards_compatibility,
    require_count,
)
from horovod.mxnet import engine


def allreduce(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Any:
    """Returns the tensor reduced over all ranks. The highest `priority` is reduced first."""
    op = _reduction(op, average)
    scaling = (prescale_factor, postscale_factor)
    results, _ = engine.run(
        "allreduce", [tensor], name, priority, process_set, op=op, scaling=scaling
    )
    return results[0]


def allreduce_(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Any:
    """As `allreduce`, in place."""
    op = _reduction(op, average)
    scaling = (prescale_factor, postscale_factor)
    engine.run(
        "allreduce", [tensor], name, priority, process_set, in_place=True, op=op, scaling=scaling
    )
    return tensor


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Sequence[Any]:
    """Returns several tensors reduced over all ranks, all at once."""
    if not tensors:
        return tensors
    results, _ = engine.run(
        "allreduce",
        tensors,
        name,
        priority,
        process_set,
        grouped=True,
        op=_reduction(op, average),
        scaling=(prescale_factor, postscale_factor),
    )
    return results


def grouped_allreduce_(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Sequence[Any]:
    """As `grouped_allreduce`, in place."""
    if tensors:
        engine.run(
            "allreduce",
            tensors,
            name,
            priority,
            process_set,
            in_place=True,
            grouped=True,
            op=_reduction(op, average),
            scaling=(prescale_factor, postscale_factor),
        )
    return tensors


def allgather(
    tensor: Any,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the rows of all ranks, by rank; ranks may have different numbers of rows."""
    assert engine.is_array(tensor), f"allgather takes an NDArray, not {type(tensor).__name__}"
    results, _ = engine.run("allgather", [tensor], name, priority, process_set)
    return results[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Sequence[Any]:
    """Returns the rows of all ranks, for several tensors."""
    assert all(map(engine.is_array, tensors)), "grouped_allgather takes a list of NDArrays"
    if not tensors:
        return tensors
    results, _ = engine.run("allgather", tensors, name, priority, process_set, grouped=True)
    return results


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the root's tensor on every rank."""
    root = require_count(root_rank, "root_rank")
    results, _ = engine.run("broadcast", [tensor], name, priority, process_set, root=root)
    return results[0]


def broadcast_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Overwrites the tensor with the root's."""
    root = require_count(root_rank, "root_rank")
    engine.run("broadcast", [tensor], name, priority, process_set, in_place=True, root=root)
    return tensor


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends rows to every rank and returns those received; `splits` is how many go to each.

    With `splits` the result is a pair: the rows, and how many came from each rank.
    """
    assert engine.is_array(tensor), f"alltoall takes an NDArray, not {type(tensor).__name__}"
    rows = [] if splits is None else _splits(splits)
    results, received = engine.run("alltoall", [tensor], name, priority, process_set, splits=rows)
    if splits is None:
        return results[0]
    return results[0], _numbers(received, tensor)


def reducescatter(
    tensor: Any,
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Returns this rank's share of the rows of the tensor reduced over all ranks."""
    results = _scatter([tensor], op, name, priority, process_set, prescale_factor, postscale_factor)
    return results[0]


def grouped_reducescatter(
    tensors: Sequence[Any],
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Sequence[Any]:
    """As `reducescatter`, for several tensors."""
    if not tensors:
        return tensors
    scaling = (prescale_factor, postscale_factor)
    return _scatter(tensors, op, name, priority, process_set, *scaling, grouped=True)


def _scatter(
    tensors: Sequence[Any],
    op: int,
    name: str | None,
    priority: int,
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
    grouped: bool = False,
) -> list[Any]:
    assert all(map(engine.is_array, tensors)), "reducescatter takes NDArrays"
    assert op in (Average, Sum), "reducescatter supports op=hvd.Average and op=hvd.Sum only"
    results, _ = engine.run(
        "reducescatter",
        tensors,
        name,
        priority,
        process_set,
        grouped=grouped,
        op=op,
        scaling=(prescale, postscale),
    )
    return results


def _reduction(op: int | None, average: bool | None) -> int:
    op = handle_average_backwards_compatibility(op, average)
    assert op != Adasum, "Adasum is not supported for MXNet"
    return op


def _splits(splits: Any) -> list[int]:
    if not engine.is_array(splits):
        return check_splits(splits)
    rows = splits.asnumpy()
    if rows.dtype != "int32":
        raise ValueError(f"splits must be int32, not {rows.dtype}")
    return check_splits(rows.tolist())


def _numbers(numbers: list[int], like: Any) -> Any:
    """Numbers as an array on the host, of the kind that the caller uses."""
    module = mx.np if isinstance(like, mx.np.ndarray) else mx.nd
    return module.array(numbers, dtype="int32", ctx=mx.cpu())
