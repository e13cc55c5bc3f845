"""Wraps optimizers of optax, so that each step uses what all ranks have learned."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import core, lax
from jax.dtypes import float0

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Adasum, Average
from horovod.jax.compression import Compression, Compressor
from horovod.jax.reduction import Reduction

__all__ = ["AccumulationState", "DistributedGradientTransformation", "DistributedOptimizer"]

Tree = Any
Update = Callable[..., tuple[Tree, Tree]]


class AccumulationState(NamedTuple):
    """The state of an optimizer with `backward_passes_per_step` above 1."""

    passes: Any
    gradients: Tree
    inner_state: Tree


def DistributedGradientTransformation(
    optimizer: Any,
    *,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    groups: int | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns an optimizer of optax that combines what all ranks have learned in each step.

    With op=Average or Sum that is their gradients, with op=Adasum what their steps would change.
    The whole tree travels in one collective, or in `groups` of them.

    Gradients of `backward_passes_per_step` calls are added up, or averaged with
    `average_aggregated_gradients`; calls in between return updates of zero. With one call per step
    the state is the wrapped optimizer's own. Ranks outside of `process_set` keep their gradients.
    """
    optax = _optax()
    reduce = Reduction(name, compression, op, gradient_predivide_factor, groups, process_set)
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("average_aggregated_gradients is not possible with op=hvd.Adasum")
    if not isinstance(backward_passes_per_step, int) or backward_passes_per_step <= 0:
        raise ValueError(
            f"backward_passes_per_step must be above 0, not {backward_passes_per_step}"
        )
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise ValueError(f"expected an optimizer of optax, not {type(optimizer).__name__}")
    inner = optax.with_extra_args_support(optimizer)
    step = functools.partial(_step, reduce, inner.update)
    if backward_passes_per_step == 1:
        return optax.GradientTransformationExtraArgs(inner.init, step)
    divisor = backward_passes_per_step if average_aggregated_gradients else 1
    return optax.GradientTransformationExtraArgs(
        functools.partial(_init_accumulation, inner.init),
        functools.partial(_accumulate, step, backward_passes_per_step, divisor),
    )


DistributedOptimizer = DistributedGradientTransformation


def _optax() -> Any:
    try:
        import optax
    except ModuleNotFoundError as error:
        if error.name != "optax":
            raise
        raise ImportError(
            "hvd.DistributedOptimizer wraps optimizers of optax, which is not installed: "
            "pip install optax; hvd.value_and_grad works without it"
        ) from error
    return optax


def _step(
    reduce: Reduction,
    update: Update,
    gradients: Tree,
    state: Tree,
    params: Tree = None,
    **extra: Any,
) -> tuple[Tree, Tree]:
    if reduce.op != Adasum:
        return update(reduce(gradients), state, params, **extra)
    updates, state = update(gradients, state, params, **extra)
    return reduce(updates), state


def _init_accumulation(init: Callable[[Tree], Tree], params: Tree) -> AccumulationState:
    return AccumulationState(
        jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params), init(params)
    )


def _accumulate(
    step: Update,
    passes: int,
    divisor: int,
    gradients: Tree,
    state: AccumulationState,
    params: Tree = None,
    **extra: Any,
) -> tuple[Tree, AccumulationState]:
    """Adds up gradients; every so many passes, has all ranks take a step with the sum."""
    total = jax.tree.map(_add, state.gradients, gradients)
    count = state.passes + 1

    def last() -> tuple[Tree, AccumulationState]:
        sums = jax.tree.map(lambda each: each / divisor, total) if divisor > 1 else total
        updates, inner = step(sums, state.inner_state, params, **extra)
        zeros = jax.tree.map(jnp.zeros_like, total)
        return updates, AccumulationState(jnp.zeros_like(count), zeros, inner)

    def not_yet() -> tuple[Tree, AccumulationState]:
        return jax.tree.map(jnp.zeros_like, total), state._replace(passes=count, gradients=total)

    if not isinstance(count, core.Tracer):
        return last() if int(count) == passes else not_yet()
    return lax.cond(count == passes, last, not_yet)


def _add(total: Any, gradient: Any) -> Any:
    return total if gradient.dtype == float0 else total + gradient.astype(total.dtype)
