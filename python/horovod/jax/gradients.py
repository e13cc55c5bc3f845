"""The gradients of the collectives, as the other frameworks have them.

Those of allgather and broadcast are averages over the ranks, not sums: with the same loss on every
rank the factor is 1. Forward-mode differentiation works where a collective is linear.

The rules belong to the primitive itself and not to a `jax.custom_vjp` round it: JAX drops one of
those whose result is not used, and with it the rank's part in the collective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import core, lax
from jax.dtypes import float0
from jax.interpreters import ad, batching, mlir

from horovod import numpy as hvd
from horovod.common.basics import rank
from horovod.common.process_sets import set_rank, set_size
from horovod.common.util import Average, Sum
from horovod.jax import compatibility
from horovod.jax.collective import Collective
from horovod.jax.primitive import batched, bind, collective_p

Array = Any
Rows = tuple[int, ...]

tangent_p = compatibility.Primitive("horovod_tangent")
tangent_p.multiple_results = True


@dataclass(frozen=True)
class Tangent:
    """What is known of a collective when its tangents are: for each array the shape of its result
    and its numbers of rows, one for all ranks or one by rank.
    """

    collective: Collective
    shapes: tuple[tuple[int, ...], ...]
    rows: tuple[Rows, ...]


def _jvp(
    arrays: Sequence[Array], tangents: Sequence[Array], *, collective: Collective
) -> tuple[list[Array], list[Array]]:
    results = bind(collective, arrays)
    places = [at for at, it in enumerate(arrays) if jnp.issubdtype(it.dtype, jnp.inexact)]
    known = Tangent(
        replace(collective, name=None),
        tuple(results[at].shape for at in places),
        tuple(_rows(collective, arrays[at]) for at in places),
    )
    moved = tangent_p.bind(*(ad.instantiate_zeros(tangents[at]) for at in places), known=known)
    chosen = dict(zip(places, moved))
    # Integers do not move.
    return results, [chosen[at] if at in chosen else _still(it) for at, it in enumerate(results)]


def _still(result: Array) -> Any:
    return ad.Zero(core.ShapedArray(result.shape, float0))


def _rows(collective: Collective, array: Array) -> Rows:
    """The rows of an array; outside of programs those of an allgather by rank."""
    if collective.kind != "allgather" or isinstance(array, core.Tracer):
        return tuple(array.shape[:1])
    mine = np.array(array.shape[:1], np.int64)
    return tuple(int(it) for it in hvd.allgather(mine, process_set=collective.process_set))


def _forward(*tangents: Array, known: Tangent) -> list[Array]:
    """The tangents of a linear collective are what it makes of the tangents."""
    collective = known.collective
    if collective.kind in ("allreduce", "reducescatter") and collective.op not in (Average, Sum):
        raise NotImplementedError(
            f"hvd.{collective.kind} can be differentiated forwards with Average and Sum only; use "
            "jax.grad or jax.vjp"
        )
    return bind(collective, tangents)


def _describe(*tangents: Any, known: Tangent) -> list[Any]:
    return [core.ShapedArray(shape, it.dtype) for shape, it in zip(known.shapes, tangents)]


def _batch(tangents: Sequence[Array], dims: Sequence[Any], *, known: Tangent) -> Any:
    return batched(lambda them: _forward(*them, known=known), known.collective, tangents, dims)


def _transpose(cotangents: Sequence[Array], *_tangents: Any, known: Tangent) -> list[Array]:
    backward = _BACKWARD[known.collective.kind]
    return backward(known, [ad.instantiate_zeros(it) for it in cotangents])


def _allreduce(known: Tangent, gradients: list[Array]) -> list[Array]:
    return bind(known.collective, gradients)


def _average(it: Collective, gradients: list[Array]) -> list[Array]:
    return bind(Collective("allreduce", process_set_id=it.process_set_id), gradients)


def _allgather(known: Tangent, gradients: list[Array]) -> list[Array]:
    """This rank's rows of the average gradient."""
    process_set = known.collective.process_set
    place, size = set_rank(process_set), set_size(process_set)
    results = []
    for rows, gradient in zip(known.rows, _average(known.collective, gradients)):
        counts = rows * size if len(rows) == 1 else rows
        start = sum(counts[:place])
        results.append(lax.slice_in_dim(gradient, start, start + counts[place]))
    return results


def _broadcast(known: Tangent, gradients: list[Array]) -> list[Array]:
    is_root = rank() == known.collective.root
    return [each if is_root else each * 0 for each in _average(known.collective, gradients)]


def _alltoall(known: Tangent, gradients: list[Array]) -> list[Array]:
    it = known.collective
    if it.splits is not None:
        it = replace(it, splits=received_splits(it))
    return [bind(it, [gradient])[0] for gradient in gradients]


def _reducescatter(known: Tangent, gradients: list[Array]) -> list[Array]:
    it = known.collective
    factor = it.prescale * it.postscale * (set_size(it.process_set) if it.op == Sum else 1)
    results = []
    for (rows,), gradient in zip(known.rows, gradients):
        gather = Collective("allgather", process_set_id=it.process_set_id, rows=rows)
        results += bind(gather, [gradient * factor if factor != 1 else gradient])
    return results


_BACKWARD: dict[str, Callable[[Tangent, list[Array]], list[Array]]] = {
    "allreduce": _allreduce,
    "allgather": _allgather,
    "broadcast": _broadcast,
    "alltoall": _alltoall,
    "reducescatter": _reducescatter,
}


def received_splits(it: Collective) -> tuple[int, ...]:
    """How many rows each rank sends to this one in an alltoall with splits."""
    mine = np.array(it.splits, np.int64)
    received = hvd.alltoall(mine, process_set=it.process_set)
    return tuple(int(count) for count in received)


ad.primitive_jvps[collective_p] = _jvp
tangent_p.def_impl(_forward)
tangent_p.def_abstract_eval(_describe)
ad.deflinear2(tangent_p, _transpose)
batching.primitive_batchers[tangent_p] = _batch
mlir.register_lowering(tangent_p, mlir.lower_fun(_forward, multiple_results=True))
