"""The gradients of the collectives, as the other frameworks have them.

Those of allgather and broadcast are averages over the ranks, not sums: with the same loss on every
rank the factor is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import core, lax
from jax.dtypes import float0

from horovod import numpy as hvd
from horovod.common.basics import rank
from horovod.common.process_sets import set_rank, set_size
from horovod.common.util import Average, Sum
from horovod.jax.collective import Collective
from horovod.jax.primitive import bind

Array = Any


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def differentiable(collective: Collective, arrays: Sequence[Array]) -> list[Array]:
    """The results of a collective, which have gradients."""
    return bind(collective, arrays)


def _forward(collective: Collective, arrays: Sequence[Array]) -> tuple[list[Array], Any]:
    rows = None
    if collective.kind in ("allgather", "reducescatter"):
        rows = [_rows(collective, array) for array in arrays]
    return bind(collective, arrays), rows


def _rows(collective: Collective, array: Array) -> Any:
    """What the gradient has to know of an array: its rows, those of an allgather by rank."""
    if collective.kind == "reducescatter" or isinstance(array, core.Tracer):
        return array.shape[0]
    mine = np.array(array.shape[:1], np.int64)
    return hvd.allgather(mine, process_set=collective.process_set)


def _backward(collective: Collective, rows: Any, gradients: Sequence[Array]) -> tuple[list[Any]]:
    places = [at for at, it in enumerate(gradients) if it.dtype != float0]
    results: list[Any] = [None] * len(gradients)
    if places:
        chosen = [gradients[at] for at in places]
        known = None if rows is None else [rows[at] for at in places]
        backward = _BACKWARD[collective.kind](replace(collective, name=None), known, chosen)
        for at, gradient in zip(places, backward):
            results[at] = gradient
    return (results,)


def _allreduce(it: Collective, _rows: None, gradients: list[Array]) -> list[Array]:
    return differentiable(it, gradients)


def _average(it: Collective, gradients: list[Array]) -> list[Array]:
    average = Collective("allreduce", op=Average, process_set_id=it.process_set_id)
    return differentiable(average, gradients)


def _allgather(it: Collective, rows: list[Any], gradients: list[Array]) -> list[Array]:
    """This rank's rows of the average gradient."""
    place = set_rank(it.process_set)
    results = []
    for count, gradient in zip(rows, _average(it, gradients)):
        counts = np.atleast_1d(np.asarray(count))
        if counts.size == 1:
            counts = np.repeat(counts, set_size(it.process_set))
        start = int(counts[:place].sum())
        results.append(lax.slice_in_dim(gradient, start, start + int(counts[place])))
    return results


def _broadcast(it: Collective, _rows: None, gradients: list[Array]) -> list[Array]:
    is_root = rank() == it.root
    return [each if is_root else each * 0 for each in _average(it, gradients)]


def _alltoall(it: Collective, _rows: None, gradients: list[Array]) -> list[Array]:
    if it.splits is not None:
        it = replace(it, splits=received_splits(it))
    return differentiable(it, gradients)


def _reducescatter(it: Collective, rows: list[Any], gradients: list[Array]) -> list[Array]:
    factor = it.prescale * it.postscale * (set_size(it.process_set) if it.op == Sum else 1)
    results = []
    for count, gradient in zip(rows, gradients):
        gather = Collective("allgather", process_set_id=it.process_set_id, rows=int(count))
        results += differentiable(gather, [gradient * factor if factor != 1 else gradient])
    return results


_BACKWARD: dict[str, Callable[[Collective, Any, list[Array]], list[Array]]] = {
    "allreduce": _allreduce,
    "allgather": _allgather,
    "broadcast": _broadcast,
    "alltoall": _alltoall,
    "reducescatter": _reducescatter,
}

differentiable.defvjp(_forward, _backward)


def received_splits(it: Collective) -> tuple[int, ...]:
    """How many rows each rank sends to this one in an alltoall with splits."""
    mine = np.array(it.splits, np.int64)
    received = hvd.alltoall(mine, process_set=it.process_set)
    return tuple(int(count) for count in received)
