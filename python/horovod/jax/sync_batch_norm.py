"""Mean and variance over the batches of all ranks, which may have different numbers of rows.

The modules of flax that normalize with them are in `linen.py` and `nnx.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from horovod.common.process_sets import ProcessSet, global_process_set, set_size
from horovod.common.util import Sum
from horovod.jax.mpi_ops import allreduce

Array = Any


def sync_batch_statistics(
    x: Array,
    axes: Sequence[int],
    *,
    mask: Array = None,
    dtype: Any = None,
    fast_variance: bool = True,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[Array, Array]:
    """Mean and variance over `axes` as if the batches of all ranks were one; differentiable.

    Both sums and the number of elements travel in one collective. Without `fast_variance` there
    are two, and the variance is exact also if it is much smaller than the mean. `mask` chooses the
    elements that count.
    """
    axes = tuple(axes)
    x = jnp.asarray(x, jnp.promote_types(jnp.result_type(x) if dtype is None else dtype, "float32"))

    def total(*arrays: Array) -> Array:
        sums = jnp.stack(jnp.broadcast_arrays(*(jnp.sum(it, axes, where=mask) for it in arrays)))
        if not process_set.included() or set_size(process_set) == 1:
            return sums
        return allreduce(sums, op=Sum, name=name, process_set=process_set)

    ones = jnp.ones_like(x)
    if fast_variance:
        count, sums, squares = total(ones, x, lax.square(x))
        mean = sums / count
        return mean, jnp.maximum(0.0, squares / count - lax.square(mean))
    count, sums = total(ones, x)
    mean = sums / count
    return mean, total(lax.square(x - jnp.expand_dims(mean, axes)))[0] / count


def normalize(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array,
    bias: Array,
    axes: Sequence[int],
    epsilon: float,
) -> Array:
    """Normalizes; scale and bias, one number per feature, may be None."""
    factor = lax.rsqrt(jnp.expand_dims(variance, axes) + epsilon)
    y = x - jnp.expand_dims(mean, axes)
    y = y * (factor if scale is None else factor * jnp.expand_dims(scale, axes))
    return y if bias is None else y + jnp.expand_dims(bias, axes)


def batch_axes(dimensions: int, features: int | Sequence[int]) -> tuple[int, ...]:
    """All axes but those of features."""
    kept = [features] if isinstance(features, int) else features
    return tuple(at for at in range(dimensions) if at not in [each % dimensions for each in kept])
