"""Collectives outside of compiled programs: arrays of JAX as arrays of NumPy, which share memory.

Here ranks may pass different numbers of rows, and arrays may be spread over several devices of the
process (`shards.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from horovod import numpy as hvd
from horovod.jax.collective import Collective

Array = Any


def run(collective: Collective, arrays: Sequence[Array]) -> list[Array]:
    """Runs a collective of several arrays, all under way at the same time."""
    results = _FUNCTIONS[collective.kind](collective, [to_numpy(array) for array in arrays])
    return [to_jax(result, array) for result, array in zip(results, arrays)]


def to_numpy(array: Array) -> np.ndarray[Any, Any]:
    """The memory of an array; a copy only if it is on another device."""
    return np.asarray(array)


def to_jax(result: np.ndarray[Any, Any], like: Array) -> Array:
    """A result where the array that was passed is."""
    if getattr(like, "committed", False):
        return jax.device_put(result, like.sharding)
    return jnp.asarray(result)


def _allreduce(it: Collective, arrays: list[Any]) -> list[Any]:
    if len(arrays) == 1:
        return [hvd.allreduce(arrays[0], name=it.name, **it.scaled())]
    return hvd.grouped_allreduce(arrays, name=it.name, **it.scaled())


def _allgather(it: Collective, arrays: list[Any]) -> list[Any]:
    if len(arrays) == 1:
        return [hvd.allgather(arrays[0], name=it.name, process_set=it.process_set)]
    return hvd.grouped_allgather(arrays, name=it.name, process_set=it.process_set)


def _reducescatter(it: Collective, arrays: list[Any]) -> list[Any]:
    if len(arrays) == 1:
        return [hvd.reducescatter(arrays[0], name=it.name, **it.scaled())]
    return hvd.grouped_reducescatter(arrays, name=it.name, **it.scaled())


def _members(it: Collective, arrays: list[Any]) -> list[tuple[Any, str | None]]:
    """Arrays that are not a group of the engine, with their names."""
    return [(each, it.member(at, len(arrays)).name) for at, each in enumerate(arrays)]


def _broadcast(it: Collective, arrays: list[Any]) -> list[Any]:
    handles = [
        hvd.broadcast_async(array, it.root, name=name, process_set=it.process_set)
        for array, name in _members(it, arrays)
    ]
    return [hvd.synchronize(handle) for handle in handles]


def _alltoall(it: Collective, arrays: list[Any]) -> list[Any]:
    handles = [
        hvd.alltoall_async(array, it.splits, name=name, process_set=it.process_set)
        for array, name in _members(it, arrays)
    ]
    return [hvd.synchronize(handle)[0] for handle in handles]


_FUNCTIONS: dict[str, Callable[[Collective, list[Any]], list[Any]]] = {
    "allreduce": _allreduce,
    "allgather": _allgather,
    "broadcast": _broadcast,
    "alltoall": _alltoall,
    "reducescatter": _reducescatter,
}
