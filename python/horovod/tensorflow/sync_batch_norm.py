"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.common.basics import rank as rank
from horovod.common.basics import size
from horovod.common.util import Sum
from horovod.tensorflow.mpi_ops import allreduce_tensor

_IS_KERAS_2 = hasattr(tf.keras.layers.BatchNormalization, "_calculate_mean_and_var")


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """Normalizes with mean and variance of what all ranks have, each with the same weight."""

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization is not possible with fused=True")
        if _IS_KERAS_2:
            kwargs["fused"] = False
        super().__init__(**kwargs)

    def _moments(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        mean, variance = super()._moments(*args, **kwargs)
        if size() == 1:
            return mean, variance
        together = tf.stack([mean, variance + tf.square(mean)])
        mean, mean_of_squares = tf.unstack(allreduce_tensor(together, op=Sum) / size())
        return mean, mean_of_squares - tf.square(mean)
