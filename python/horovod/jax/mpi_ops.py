"""The collectives on arrays of JAX and trees of them.

They work at once, and in programs that `jax.jit` compiles, under `grad`, `vmap` and in loops. A
tree is one collective: its arrays travel together. In a program every rank passes the same number
of rows to `allgather`, `alltoall` and `reducescatter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import core

from horovod.common import collectives
from horovod.common.collectives import join
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average, handle_average_backwards_compatibility
from horovod.jax.collective import Collective, collective
from horovod.jax.compression import Compression, Compressor
from horovod.jax.gradients import received_splits
from horovod.jax.primitive import bind

__all__ = [
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "reducescatter",
]

Tree = Any


def allreduce(
    tensor: Tree,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tree:
    """Combines the arrays of all ranks element by element."""
    op = handle_average_backwards_compatibility(op, average)
    options = {"op": op, "prescale": float(prescale_factor), "postscale": float(postscale_factor)}
    it = collective("allreduce", name, process_set, **options)
    leaves, structure = jax.tree.flatten(tensor)
    compressed = [compression.compress(jnp.asarray(leaf)) for leaf in leaves]
    reduced = _run(it, [array for array, _ in compressed])
    results = [compression.decompress(it, ctx) for it, (_, ctx) in zip(reduced, compressed)]
    return jax.tree.unflatten(structure, results)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Combines several arrays at once; the same as `allreduce` of a list."""
    options = (prescale_factor, postscale_factor, process_set)
    return allreduce(list(tensors), average, name, compression, op, *options)


def allgather(
    tensor: Tree, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tree:
    """Joins the rows of all ranks, in the order of their ranks."""
    return _run_tree(collective("allgather", name, process_set), tensor)


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Joins the rows of several arrays; the same as `allgather` of a list."""
    return allgather(list(tensors), name, process_set)


def broadcast(
    tensor: Tree,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tree:
    """The root's array, on every rank."""
    return _run_tree(collective("broadcast", name, process_set, root=int(root_rank)), tensor)


def alltoall(
    tensor: Any,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends part of the rows to each rank, equal parts or `splits[i]` rows to rank `i`.

    With splits the result is a pair: the rows received, and how many came from each rank.
    """
    if splits is None:
        return _run_tree(collective("alltoall", name, process_set), tensor)
    if isinstance(splits, core.Tracer):
        raise ValueError("alltoall: splits must be numbers, not values of a program")
    counts = tuple(collectives.check_splits(splits))
    it = collective("alltoall", name, process_set, splits=counts)
    (rows,) = _run(it, [jnp.asarray(tensor)])
    return rows, jnp.asarray(received_splits(it), jnp.int32)


def reducescatter(
    tensor: Tree,
    op: int = Average,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tree:
    """Combines the arrays of all ranks and gives each rank its share of the rows."""
    options = {"op": op, "prescale": float(prescale_factor), "postscale": float(postscale_factor)}
    return _run_tree(collective("reducescatter", name, process_set, **options), tensor)


def grouped_reducescatter(
    tensors: Sequence[Any],
    op: int = Average,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Combines and divides several arrays; the same as `reducescatter` of a list."""
    options = (prescale_factor, postscale_factor, process_set)
    return reducescatter(list(tensors), op, name, *options)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks are here; not part of a program."""
    collectives.barrier(process_set)


def _run_tree(it: Collective, tree: Tree) -> Tree:
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, _run(it, [jnp.asarray(leaf) for leaf in leaves]))


def _run(it: Collective, arrays: list[Any]) -> list[Any]:
    return bind(it, arrays) if arrays else []
