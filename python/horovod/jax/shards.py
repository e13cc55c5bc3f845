"""Arrays that are spread over several devices of the process: they are reduced shard by shard.

Ranks whose arrays are divided in another way get the engine's error about different shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from horovod.jax import host
from horovod.jax.collective import Collective

Array = Any


def is_spread(array: Array) -> bool:
    """Whether an array is on more than one device."""
    return len(array.sharding.device_set) > 1


def run(collective: Collective, arrays: Sequence[Array]) -> list[Array]:
    """Runs a collective that works element by element on every shard."""
    for array in arrays:
        _check(collective, array)
    pieces = [_distinct(array) for array in arrays]
    flat = [shard.data for shards in pieces for shard in shards.values()]
    results = iter(host.run(collective, flat))
    return [
        _assemble(array, {index: next(results) for index in shards})
        for array, shards in zip(arrays, pieces)
    ]


def _check(collective: Collective, array: Array) -> None:
    if not array.is_fully_addressable:
        raise ValueError(
            f"hvd.{collective.kind}: parts of this array are in other processes of a "
            "jax.distributed job; Horovod reduces arrays that each process has of its own"
        )
    if is_spread(array) and collective.kind not in ("allreduce", "broadcast"):
        raise NotImplementedError(
            f"hvd.{collective.kind} of an array on {len(array.sharding.device_set)} devices would "
            "mix up its rows; put it on one device first: jax.device_put(array, jax.devices()[0])"
        )


def _distinct(array: Array) -> dict[str, Any]:
    """A shard for each part of the array; copies of the same part count once."""
    shards: dict[str, Any] = {}
    for shard in array.addressable_shards:
        shards.setdefault(str(shard.index), shard)
    return shards


def _assemble(array: Array, results: dict[str, Array]) -> Array:
    parts = [
        jax.device_put(results[str(shard.index)], shard.device)
        for shard in array.addressable_shards
    ]
    return jax.make_array_from_single_device_arrays(array.shape, array.sharding, parts)
