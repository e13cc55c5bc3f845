"""Between the frameworks and the engine: views of memory in, handles out, results back.

Owns the table of operations that were submitted and not yet synchronized. An entry keeps the
memory alive that the engine reads and writes, so it is only dropped once the engine is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from horovod import _core
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, usable_id
from horovod.common.util import Adasum, Average, Max, Min, Product, Sum, require_count

Output = _core.Output

Finish = Callable[[Any], Any]
"""Turns what the engine allocated (an `Output`, or None) into what the caller gets."""


class View(NamedTuple):
    """Memory of a contiguous tensor, as the engine sees it."""

    address: int
    dtype: int
    shape: Sequence[int]
    owner: object


class _Pending(NamedTuple):
    views: tuple[View, ...]
    finish: Finish


_pending: dict[int, _Pending] = {}


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


def forget_all() -> None:
    """Drops every pending operation; only right when the engine has stopped."""
    _pending.clear()


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
    _check_op(op)
    handle = _core.allreduce(
        _full_name("allreduce", name),
        source.address,
        target.address,
        source.dtype,
        source.shape,
        op,
        float(scaling[0]),
        float(scaling[1]),
        usable_id(process_set),
    )
    return _remember(handle, finish, source, target)


def allgather(source: View, name: str | None, process_set: ProcessSet, finish: Finish) -> int:
    """Starts an allgather; returns its handle."""
    handle = _core.allgather(
        _full_name("allgather", name),
        source.address,
        source.dtype,
        source.shape,
        usable_id(process_set),
    )
    return _remember(handle, finish, source)


def broadcast(
    view: View, root_rank: int, name: str | None, process_set: ProcessSet, finish: Finish
) -> int:
    """Starts a broadcast in place; returns its handle."""
    handle = _core.broadcast(
        _full_name("broadcast", name),
        view.address,
        view.address,
        view.dtype,
        view.shape,
        require_count(root_rank, "root_rank"),
        usable_id(process_set),
    )
    return _remember(handle, finish, view)


def alltoall(
    source: View,
    splits: Sequence[int],
    name: str | None,
    process_set: ProcessSet,
    finish: Finish,
) -> int:
    """Starts an alltoall; no splits means equal parts. Returns its handle."""
    handle = _core.alltoall(
        _full_name("alltoall", name),
        source.address,
        source.dtype,
        source.shape,
        splits,
        usable_id(process_set),
    )
    return _remember(handle, finish, source)


def reducescatter(
    source: View,
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
    finish: Finish,
) -> int:
    """Starts a reducescatter; returns its handle."""
    _check_op(op)
    if len(source.shape) == 0:
        raise ValueError("reducescatter needs at least one dimension to split, got a scalar")
    handle = _core.reducescatter(
        _full_name("reducescatter", name),
        source.address,
        source.dtype,
        source.shape,
        op,
        float(scaling[0]),
        float(scaling[1]),
        usable_id(process_set),
    )
    return _remember(handle, finish, source)


def barrier(process_set: ProcessSet) -> None:
    """Waits until every rank has arrived."""
    _core.wait(_core.barrier(usable_id(process_set)))


def poll(handle: int) -> bool:
    """Whether an operation has ended, so that `synchronize` would not wait."""
    if handle not in _pending:
        raise ValueError(f"handle {handle} is unknown or was synchronized before")
    return _core.poll(handle)


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result; None if the handle is not known."""
    entry = _pending.get(handle)
    if entry is None:
        return None
    try:
        output = _core.wait(handle)
    except (HorovodInternalError, ValueError):
        _pending.pop(handle, None)
        raise
    _pending.pop(handle, None)
    return entry.finish(output)


def output_buffer(output: Output) -> Any:
    """The memory of an output, as a writable buffer that keeps the output alive."""
    buffer = (ctypes.c_char * output.nbytes).from_address(output.address)
    buffer.output = output  # type: ignore[attr-defined]
    return buffer


def check_splits(splits: Iterable[Any]) -> list[int]:
    """Returns alltoall splits as a list of ints."""
    return [require_count(rows, "each of splits") for rows in splits]


def _remember(handle: int, finish: Finish, *views: View) -> int:
    _pending[handle] = _Pending(views, finish)
    return handle


def _full_name(operation: str, name: str | None) -> str | None:
    return None if name is None else f"{operation}.{name}"


def _check_op(op: int) -> None:
    if op == Adasum:
        raise NotImplementedError("Adasum is not supported in this version; use Average or Sum")
    if op not in (Average, Sum, Min, Max, Product):
        raise ValueError(f"unknown reduction {op!r}; use Average, Sum, Min, Max or Product")
