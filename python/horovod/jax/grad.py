"""`jax.grad` and `jax.value_and_grad` whose gradients are those of all ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average
from horovod.jax.compression import Compression, Compressor
from horovod.jax.reduction import Reduction


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    groups: int | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[..., Any]:
    """As `jax.value_and_grad`, with gradients averaged over all ranks; the value is this rank's.

    All gradients travel in one collective, or in `groups` of them.
    """
    reduce = Reduction(name, compression, op, gradient_predivide_factor, groups, process_set)
    own = jax.value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, gradients = own(*args, **kwargs)
        return value, reduce(gradients)

    return wrapped


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *args: Any,
    **options: Any,
) -> Callable[..., Any]:
    """As `jax.grad`, with gradients averaged over all ranks; takes what `value_and_grad` does."""
    both = value_and_grad(fun, argnums, has_aux, *args, **options)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapped
