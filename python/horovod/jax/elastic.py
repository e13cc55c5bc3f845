"""Elastic training with JAX: what survives a change of the job's ranks, and `run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from horovod.common import elastic
from horovod.common.basics import rank
from horovod.common.elastic import ObjectState, recognized_failures, rejoin
from horovod.common.elastic import run_fn as run_fn
from horovod.jax import leaves
from horovod.jax.functions import broadcast_object, broadcast_parameters

__all__ = ["JaxState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `func(state, ...)` go on after ranks were lost or hosts have changed."""
    return elastic.run(func, is_failure, _reset)


def is_failure(error: Exception) -> bool:
    """Whether this is the error of a compiled program in which a collective has failed.

    JaxRuntimeError, but ValueError from a program that runs in the thread that calls it.
    """
    return isinstance(error, (RuntimeError, ValueError)) and "HorovodInternalError: " in str(error)


def _reset() -> None:
    rejoin()
    # Programs were compiled for the ranks that there were.
    jax.clear_caches()


class JaxState(ObjectState):
    """Trees with arrays, and other attributes, that survive a change of the job's ranks.

    `JaxState(params=params, opt_state=opt_state, epoch=0)`. Saved arrays are copies in the host's
    memory, so that programs may reuse the memory of their arguments (`donate_argnums`).
    """

    def __init__(self, **kwargs: Any) -> None:
        self._saved_trees: dict[str, Any] = {}
        super().__init__(broadcast_object, rank, **kwargs)
        self.save()

    def save(self) -> None:
        """Copies the arrays, and keeps the other attributes."""
        values = {name: getattr(self, name) for name in self._names()}
        trees = {name: value for name, value in values.items() if _has_arrays(value)}
        self._saved_trees = {name: jax.tree.map(_Copy.of, tree) for name, tree in trees.items()}
        self._saved_state = {name: it for name, it in values.items() if name not in trees}

    def restore(self) -> None:
        """Goes back to what was saved last."""
        for name, tree in self._saved_trees.items():
            setattr(self, name, jax.tree.map(_Copy.back, tree))
        super().restore()

    def sync(self) -> None:
        """Makes everything equal to rank 0's, and saves it."""
        with recognized_failures(is_failure):
            for name in self._names():
                if _has_arrays(getattr(self, name)):
                    setattr(self, name, broadcast_parameters(getattr(self, name)))
            super().sync()

    def _names(self) -> list[str]:
        return sorted([*self._saved_trees, *self._saved_state])


def _has_arrays(value: Any) -> bool:
    return any(leaves.is_array(leaf) for leaf in jax.tree.leaves(value))


class _Copy:
    """An array in the host's memory, and what is needed to make the same one again."""

    def __init__(self, array: Any) -> None:
        self.values = np.array(leaves.values_of(array))
        self.make = leaves.maker_of(array)

    @classmethod
    def of(cls, leaf: Any) -> Any:
        return cls(leaf) if leaves.is_array(leaf) else leaf

    @staticmethod
    def back(leaf: Any) -> Any:
        return leaf.make(leaf.values.copy()) if type(leaf) is _Copy else leaf
