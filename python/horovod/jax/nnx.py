"""Modules of `flax.nnx`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import lax

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.jax.sync_batch_norm import batch_axes, normalize, sync_batch_statistics

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(nnx.BatchNorm):
    """`flax.nnx.BatchNorm` as if the batches of all ranks were one batch.

    Takes the same arguments and has the same variables; only the training differs.
    """

    def __init__(
        self, *args: Any, process_set: ProcessSet = global_process_set, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.process_set = process_set

    def __call__(self, x: Any, use_running_average: bool | None = None, *, mask: Any = None) -> Any:
        """Normalizes over all ranks when training, else as a single process would."""
        running = self.use_running_average if use_running_average is None else use_running_average
        if running or running is None:
            return super().__call__(x, use_running_average, mask=mask)
        axes = batch_axes(x.ndim, self.axis)
        own = [None if it is None else it[...] for it in (self.scale, self.bias, self.mean)]
        given = [it.dtype for it in (x, *own) if it is not None]
        dtype = jnp.result_type(*given) if self.dtype is None else self.dtype
        x, scale, bias = (None if it is None else jnp.asarray(it, dtype) for it in (x, *own[:2]))
        mean, variance = sync_batch_statistics(
            x,
            axes,
            mask=mask,
            fast_variance=self.use_fast_variance,
            process_set=self.process_set,
        )
        for average, value in ((self.mean, mean), (self.var, variance)):
            new = self.momentum * average[...] + (1 - self.momentum) * value
            _set(average, lax.stop_gradient(new))
        return jnp.asarray(normalize(x, mean, variance, scale, bias, axes, self.epsilon), dtype)


def _set(variable: Any, value: Any) -> None:
    if hasattr(variable, "set_value"):
        variable.set_value(value)
    else:
        variable.value = value
