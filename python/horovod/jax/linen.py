"""Modules of `flax.linen`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import linen

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.jax.sync_batch_norm import batch_axes, normalize, sync_batch_statistics

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(linen.BatchNorm):
    """`flax.linen.BatchNorm` as if the batches of all ranks were one batch.

    Takes the same arguments and has the same variables; only the training differs.
    """

    process_set: ProcessSet = global_process_set

    @linen.compact
    def __call__(self, x: Any, use_running_average: bool | None = None, *, mask: Any = None) -> Any:
        """Normalizes over all ranks when training, else as a single process would."""
        running = linen.merge_param(
            "use_running_average", self.use_running_average, use_running_average
        )
        if running or self.is_initializing():
            own = None if self.use_running_average is not None else running
            return super().__call__(x, own, mask=mask)
        axes = batch_axes(x.ndim, self.axis)
        mean, variance = sync_batch_statistics(
            x,
            axes,
            mask=mask,
            dtype=self.dtype,
            fast_variance=self.use_fast_variance,
            process_set=self.process_set,
        )
        self._track("mean", mean, jnp.zeros)
        self._track("var", variance, jnp.ones)
        shape, dtype = mean.shape, self.param_dtype
        scale = self.param("scale", self.scale_init, shape, dtype) if self.use_scale else None
        bias = self.param("bias", self.bias_init, shape, dtype) if self.use_bias else None
        y = normalize(x, mean, variance, scale, bias, axes, self.epsilon)
        given = [it.dtype for it in (x, scale, bias) if it is not None]
        return jnp.asarray(y, jnp.result_type(*given) if self.dtype is None else self.dtype)

    def _track(self, name: str, value: Any, first: Any) -> None:
        average = self.variable("batch_stats", name, first, value.shape, jnp.float32)
        average.value = self.momentum * average.value + (1 - self.momentum) * value
