"""Callbacks for training with `horovod.tensorflow.keras`."""

from __future__ import annotations

from collections.abc import Callable
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
    """Makes model and optimizer equal to the root's, after the first batch.

    Without it, or weights loaded from the same file, ranks start with different weights and stay
    different. Variables in `local_variables` are left as they are.
    """

    keras = keras

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__(root_rank, device, local_variables)


class MetricAverageCallback(_impl.MetricAverage, keras.callbacks.Callback):
    """Averages the metrics of an epoch over all ranks.

    Goes before callbacks that look at metrics, such as those that save the best model or lower the
    learning rate, so that they decide alike on all ranks.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__(device)


class LearningRateScheduleCallback(_rates.LearningRateSchedule, keras.callbacks.Callback):
    """Multiplies the initial learning rate from `start_epoch` until before `end_epoch`.

    A constant multiplier c gives c ** (epoch - start_epoch). A function is given the epoch; with
    `staircase=False` before every batch, and with a fraction.
    """

    keras = keras

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__(
            initial_lr,
            multiplier,
            start_epoch,
            end_epoch,
            staircase,
            momentum_correction,
            steps_per_epoch,
        )


class LearningRateWarmupCallback(_rates.LearningRateWarmup, keras.callbacks.Callback):
    """Lets the learning rate grow from `initial_lr / size()` to `initial_lr`, batch by batch."""

    keras = keras

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(initial_lr, warmup_epochs, momentum_correction, steps_per_epoch, verbose)


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Saves the model whenever it is the best so far. The caller sets `filepath`."""

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        # Keras wants to see a name that fits; nothing is saved under it.
        super().__init__(
            filepath="best.weights.h5" if save_weights_only else "best.keras",
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = None
