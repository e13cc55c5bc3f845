"""Parameters, states of optimizers and Python objects between ranks."""

from __future__ import annotations

from typing import Any

import jax

from horovod import numpy as hvd
from horovod.common.objects import allgather_object, broadcast_object
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.jax import leaves

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
]

Tree = Any


def broadcast_parameters(
    params: Tree, root_rank: int = 0, process_set: ProcessSet = global_process_set
) -> Tree:
    """Returns the root's tree on every rank: parameters, a state of optax, a whole train state.

    Arrays, keys of random numbers, numbers and strings are the root's. Anything else, functions
    for example, stays this rank's. Called outside of jit.
    """
    found, structure = jax.tree_util.tree_flatten_with_path(params)
    values = [leaf for _, leaf in found]
    outline = {f"{jax.tree_util.keystr(path)}": _outline(leaf) for path, leaf in found}
    roots = broadcast_object(outline, root_rank, "parameters", process_set)
    _check(outline, roots, root_rank)
    handles = {}
    for place, (path, leaf) in enumerate(zip(outline, values)):
        if leaves.is_array(leaf):
            array = leaves.as_known_type(leaves.values_of(leaf))
            handles[place] = hvd.broadcast_async(
                array, root_rank, name=f"parameters{path}", process_set=process_set
            )
        elif isinstance(leaf, leaves.SCALARS):
            values[place] = roots[path]
    for place, handle in handles.items():
        values[place] = _result(hvd.synchronize(handle), values[place])
    return jax.tree.unflatten(structure, values)


broadcast_optimizer_state = broadcast_parameters


def _outline(leaf: Any) -> Any:
    """What ranks have to agree on about an array, or the value of a number or a string."""
    if leaves.is_array(leaf):
        return ("array", f"{leaf.dtype}", tuple(leaf.shape))
    return leaf if isinstance(leaf, leaves.SCALARS) else None


def _check(mine: dict[str, Any], roots: dict[str, Any], root_rank: int) -> None:
    """Raises ValueError where the trees differ, before anything waits for what never comes."""
    for path in [*roots, *mine]:
        own, other = mine.get(path), roots.get(path)
        both = path in mine and path in roots
        if both and (own == other or not (isinstance(own, tuple) or isinstance(other, tuple))):
            continue
        raise ValueError(
            f"broadcast_parameters: the trees of the ranks differ at {path or 'their top'}: here "
            f"{_words(mine, path)}, on rank {root_rank} {_words(roots, path)}"
        )


def _words(outline: dict[str, Any], path: str) -> str:
    if path not in outline:
        return "is nothing"
    value = outline[path]
    return f"is {value[1]}{list(value[2])}" if isinstance(value, tuple) else f"is {value!r}"


def _result(values: Any, like: Any) -> Any:
    shown = leaves.values_of(like)
    if values.dtype != shown.dtype or values.shape != shown.shape:
        values = values.view(shown.dtype).reshape(shown.shape)
    return leaves.maker_of(like)(values)
