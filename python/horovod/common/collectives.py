"""Between the frameworks and the engine: views of memory in, handles out, results back.

`_core` checks names, reductions, factors and process sets; only the rules of Adasum are here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from horovod import _core
from horovod.common.handles import Finish, View, remember
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Adasum, check_num_rank_power_of_2, require_count

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
    if op == Adasum:
        check_adasum(process_set)
    return _core.allreduce(
        name,
        source.address,
        target.address,
        source.dtype,
        source.shape,
        op,
        *scaling,
        process_set,
    )


def wait(handle: int) -> None:
    """Waits for what `start_allreduce` has started."""
    _core.wait(handle)


def allgather(source: View, name: str | None, process_set: ProcessSet, finish: Finish) -> int:
    """Starts an allgather; returns its handle."""
    handle = _core.allgather(
        name,
        source.address,
        source.dtype,
        source.shape,
        process_set,
    )
    return remember(handle, finish, source)


def broadcast(
    view: View, root_rank: int, name: str | None, process_set: ProcessSet, finish: Finish
) -> int:
    """Starts a broadcast in place; returns its handle."""
    handle = _core.broadcast(
        name,
        view.address,
        view.address,
        view.dtype,
        view.shape,
        require_count(root_rank, "root_rank"),
        process_set,
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
        name,
        source.address,
        source.dtype,
        source.shape,
        splits,
        process_set,
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
    handle = _core.reducescatter(
        name,
        source.address,
        source.dtype,
        source.shape,
        op,
        *scaling,
        process_set,
    )
    return remember(handle, finish, source)


def barrier(process_set: ProcessSet) -> None:
    """Waits until every rank has arrived."""
    _core.wait(_core.barrier(process_set))


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


def check_adasum(process_set: ProcessSet, where: str = "on global_process_set") -> None:
    """Raises NotImplementedError if Adasum cannot work with these ranks; `where` ends its text."""
    require_all_ranks(process_set, where)
    check_num_rank_power_of_2(_core.size() if _core.is_initialized() else 1)


def require_all_ranks(process_set: ProcessSet, where: str) -> None:
    """Raises NotImplementedError for Adasum on anything but the global process set."""
    if process_set.process_set_id != global_process_set.process_set_id:
        raise NotImplementedError(f"Adasum is only possible {where}")
