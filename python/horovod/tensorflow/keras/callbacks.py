"""Callbacks for training with `horovod.tensorflow.keras`, whose work `horovod._keras` does."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod._keras import callbacks as _impl
from horovod._keras import learning_rate as _rates

keras: Any = tf.keras

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(_impl.BroadcastGlobalVariables, keras.callbacks.Callback):
    """Makes model and optimizer equal to the root's, after the first batch."""

    keras = keras


class MetricAverageCallback(_impl.MetricAverage, keras.callbacks.Callback):
    """Averages the metrics of an epoch over all ranks, for the callbacks after it."""


class LearningRateScheduleCallback(_rates.LearningRateSchedule, keras.callbacks.Callback):
    """Multiplies the initial learning rate from `start_epoch` until before `end_epoch`."""

    keras = keras


class LearningRateWarmupCallback(_rates.LearningRateWarmup, keras.callbacks.Callback):
    """Lets the learning rate grow from `initial_lr / size()` to `initial_lr`, batch by batch."""

    keras = keras


class BestModelCheckpoint(_impl.BestModel, keras.callbacks.ModelCheckpoint):
    """Saves the model whenever it is the best so far. The caller sets `filepath`."""
