"""Between the frameworks and the engine: views of memory in, handles out, results back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from horovod import _core
from horovod.common.handles import Finish, View, remember
from horovod.common.process_sets import ProcessSet, global_process_set, usable_id
from horovod.common.util import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    num_rank_is_power_2,
    require_count,
)

Output = _core.Output
InPlace = _core.InPlace


def dtype_code(name: str) -> int:
    """The engine's number of an element type, by its name."""
    try:
        return _core.DTYPES[name]
    except KeyError:
        known = ", ".join(_core.DTYPES)
        raise ValueError(
            f"type not supported: {name} (Horovod can move and reduce {known})"
        ) from None


def is_root(root_rank: int) -> bool:
    """Whether this process is the root; False before `init`, which the engine then reports."""
    return _core.is_initialized() and _core.rank() == root_rank


def allreduce(
    source: View,
    target: View,
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
    finish: Finish,
) -> int:
    """Starts an allreduce from one view to another, which may be the same; returns its handle."""
    handle = start_allreduce(source, target, name, op, scaling, process_set)
    return remember(handle, finish, source, target)


def start_allreduce(
    source: View,
    target: View,
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
) -> int:
    """Starts an allreduce of which nothing is remembered here; only `wait` takes its handle.

    For callers that keep the memory alive themselves. Objects that live from a gradient's
    completion to the end of the step make the garbage collector run in between.
    """
    check_allreduce_op(op, process_set)
    return _core.allreduce(
        full_name("allreduce", name),
        source.address,
        target.address,
        source.dtype,
        source.shape,
        op,
        float(scaling[0]),
        float(scaling[1]),
        usable_id(process_set),
    )


def wait(handle: int) -> None:
    """Waits for what `start_allreduce` has started."""
    _core.wait(handle)


def allgather(source: View, name: str | None, process_set: ProcessSet, finish: Finish) -> int:
    """Starts an allgather; returns its handle."""
    handle = _core.allgather(
        full_name("allgather", name),
        source.address,
        source.dtype,
        source.shape,
        usable_id(process_set),
    )
    return remember(handle, finish, source)


def broadcast(
    view: View, root_rank: int, name: str | None, process_set: ProcessSet, finish: Finish
) -> int:
    """Starts a broadcast in place; returns its handle."""
    handle = _core.broadcast(
        full_name("broadcast", name),
        view.address,
        view.address,
        view.dtype,
        view.shape,
        require_count(root_rank, "root_rank"),
        usable_id(process_set),
    )
    return remember(handle, finish, view)


def alltoall(
    source: View,
    splits: Sequence[int],
    name: str | None,
    process_set: ProcessSet,
    finish: Finish,
) -> int:
    """Starts an alltoall; no splits means equal parts. Returns its handle."""
    handle = _core.alltoall(
        full_name("alltoall", name),
        source.address,
        source.dtype,
        source.shape,
        splits,
        usable_id(process_set),
    )
    return remember(handle, finish, source)


def reducescatter(
    source: View,
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
    finish: Finish,
) -> int:
    """Starts a reducescatter; returns its handle."""
    check_op(op)
    check_scatter(source)
    handle = _core.reducescatter(
        full_name("reducescatter", name),
        source.address,
        source.dtype,
        source.shape,
        op,
        float(scaling[0]),
        float(scaling[1]),
        usable_id(process_set),
    )
    return remember(handle, finish, source)


def barrier(process_set: ProcessSet) -> None:
    """Waits until every rank has arrived."""
    _core.wait(_core.barrier(usable_id(process_set)))


def join() -> int:
    """Takes part in what the other ranks still reduce until all have joined; returns the last."""
    return _core.join()


def output_buffer(output: Output) -> Any:
    """The memory of an output, as a writable buffer that keeps the output alive."""
    buffer = (ctypes.c_char * output.nbytes).from_address(output.address)
    buffer.output = output  # type: ignore[attr-defined]
    return buffer


def check_splits(splits: Iterable[Any]) -> list[int]:
    """Returns alltoall splits as a list of ints."""
    return [require_count(rows, "each of splits") for rows in splits]


def full_name(operation: str, name: str | None) -> str | None:
    """The name by which the engine knows a tensor; without a name the engine finds one."""
    return None if name is None else f"{operation}.{name}"


def check_scatter(source: View) -> None:
    """Raises ValueError if a tensor has no rows to share out."""
    if len(source.shape) == 0:
        raise ValueError("reducescatter needs at least one dimension to split, got a scalar")


def check_op(op: int) -> None:
    """Raises ValueError for a reduction that does not exist."""
    if op not in (Average, Sum, Adasum, Min, Max, Product):
        raise ValueError(f"unknown reduction {op!r}; use Average, Sum, Adasum, Min, Max or Product")


def check_allreduce_op(op: int, process_set: ProcessSet) -> None:
    """Raises an error for a reduction that does not exist, or not for these ranks."""
    check_op(op)
    if op != Adasum:
        return
    if process_set.process_set_id != global_process_set.process_set_id:
        raise NotImplementedError("Adasum is only possible on global_process_set")
    size = _core.size() if _core.is_initialized() else 1
    if not num_rank_is_power_2(size):
        raise NotImplementedError(
            f"Adasum needs a number of ranks that is a power of two, not {size}"
        )
