"""The primitive of JAX that all collectives are: what its transformations do with it.

In a compiled program it is a call of the extension module, which needs no Python (`lowering.py`).
Outside of one it runs at once (`host.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax import core
from jax.interpreters import batching, partial_eval
from jax.numpy import moveaxis

from horovod.common.util import Adasum
from horovod.jax import compatibility, host, lowering, shards
from horovod.jax.collective import Collective

Array = Any

collective_p = compatibility.Primitive("horovod_collective")
collective_p.multiple_results = True


def bind(collective: Collective, arrays: Sequence[Array]) -> list[Array]:
    """The results of a collective, in a program that is being traced or at once."""
    return collective_p.bind(*arrays, collective=collective)


@collective_p.def_impl
def _run(*arrays: Array, collective: Collective) -> list[Array]:
    spread = any(shards.is_spread(array) for array in arrays)
    return (shards if spread else host).run(collective, arrays)


@collective_p.def_abstract_eval
def _describe(*arrays: Any, collective: Collective) -> list[Any]:
    return [core.ShapedArray(collective.result_shape(it.shape), it.dtype) for it in arrays]


def _batch(arrays: Sequence[Array], dims: Sequence[Any], *, collective: Collective) -> Any:
    return batched(lambda them: bind(collective, them), collective, arrays, dims)


def batched(
    run: Callable[[Sequence[Array]], list[Array]],
    collective: Collective,
    arrays: Sequence[Array],
    dims: Sequence[int | None],
) -> tuple[list[Array], list[int | None]]:
    """Under `vmap` the batch is one more dimension, never the one that ranks divide."""
    if collective.kind == "allreduce" and collective.op == Adasum:
        raise NotImplementedError(
            "Adasum under vmap: it depends on all elements of an array, not on those of one "
            "example; call hvd.allreduce outside of vmap"
        )
    if collective.kind in ("allreduce", "broadcast"):
        return run(arrays), list(dims)
    for array, at in zip(arrays, dims):
        if at is not None and array.ndim < 2:
            raise ValueError(f"{collective.kind} under vmap needs a dimension of rows per example")
    moved = [it if at is None else moveaxis(it, at, 1) for it, at in zip(arrays, dims)]
    return run(moved), [None if at is None else 1 for at in dims]


def _keep(*used_and_equation: Any) -> tuple[list[bool], Any]:
    """A rank that does not need the result still has to take part. Newer JAX passes more first."""
    equation = used_and_equation[-1]
    return [True] * len(equation.invars), equation


batching.primitive_batchers[collective_p] = _batch
partial_eval.dce_rules[collective_p] = _keep
lowering.register(collective_p)
