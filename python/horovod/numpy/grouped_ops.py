"""The collectives on groups of NumPy arrays, which start together and have one handle.

The arrays of a group may have different types and shapes. Results are lists in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from horovod.common import grouped
from horovod.common.collectives import Output
from horovod.common.handles import Finish, synchronize
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average
from horovod.numpy.tensors import Array, from_output, view, writable_view


def grouped_allreduce(
    tensors: Sequence[npt.ArrayLike],
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """Combines each array of the group over all ranks and returns the results."""
    handle = grouped_allreduce_async(
        tensors,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )
    return synchronize(handle)


def grouped_allreduce_async(
    tensors: Sequence[npt.ArrayLike],
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `grouped_allreduce` and returns the handle of the group."""
    arrays = _arrays(tensors)
    results = [np.empty_like(array, order="C", subok=False) for array in arrays]
    return grouped.grouped_allreduce(
        [view(array) for array in arrays],
        [view(result) for result in results],
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        [_giving(result) for result in results],
    )


def grouped_allreduce_(
    tensors: Sequence[Array],
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """Combines each array of the group in place and returns the arrays that were passed."""
    handle = grouped_allreduce_async_(
        tensors,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )
    return synchronize(handle)


def grouped_allreduce_async_(
    tensors: Sequence[Array],
    *,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `grouped_allreduce_` and returns the handle of the group."""
    arrays = grouped.tensor_list(tensors)
    targets = [writable_view(array) for array in arrays]
    return grouped.grouped_allreduce(
        targets,
        targets,
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        [_giving(array) for array in arrays],
    )


def grouped_allgather(
    tensors: Sequence[npt.ArrayLike],
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """Concatenates each array of the group over all ranks."""
    return synchronize(grouped_allgather_async(tensors, name=name, process_set=process_set))


def grouped_allgather_async(
    tensors: Sequence[npt.ArrayLike],
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `grouped_allgather` and returns the handle of the group."""
    arrays = _arrays(tensors)
    return grouped.grouped_allgather(
        [view(array) for array in arrays],
        name,
        process_set,
        [_received(array.dtype) for array in arrays],
    )


def grouped_reducescatter(
    tensors: Sequence[npt.ArrayLike],
    *,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Array]:
    """Combines each array of the group (Average or Sum) and returns this rank's shares of rows."""
    handle = grouped_reducescatter_async(
        tensors,
        name=name,
        op=op,
        process_set=process_set,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
    )
    return synchronize(handle)


def grouped_reducescatter_async(
    tensors: Sequence[npt.ArrayLike],
    *,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts `grouped_reducescatter` and returns the handle of the group."""
    arrays = _arrays(tensors)
    return grouped.grouped_reducescatter(
        [view(array) for array in arrays],
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        [_received(array.dtype) for array in arrays],
    )


def _arrays(tensors: Sequence[npt.ArrayLike]) -> list[Array]:
    return [np.asarray(tensor, order="C") for tensor in grouped.tensor_list(tensors)]


def _giving(array: Array) -> Finish:
    return lambda _: array


def _received(dtype: np.dtype[Any]) -> Finish:
    def finish(output: Output) -> Array:
        return from_output(output, dtype)

    return finish
