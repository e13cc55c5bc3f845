"""Callbacks that change the learning rate while a model trains, for any Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from horovod._keras.callbacks import take_state_back
from horovod._keras.package import KerasClass
from horovod._keras.values import array_of
from horovod.common.basics import rank, size

__all__ = ["LearningRateScheduleCallback", "LearningRateWarmupCallback"]


class LearningRateScheduleCallback(KerasClass):
    """Multiplies the initial learning rate from `start_epoch` until before `end_epoch`.

    A constant multiplier c gives c ** (epoch - start_epoch). A function is given the epoch; with
    `staircase=False` before every batch, and with a fraction.

    The velocities of an optimizer with momentum were computed with the learning rate of their time.
    Where the rate changes they are multiplied by the same factor, which is what multiplying the
    momentum does for that batch; compiled steps would not notice another momentum.
    """

    keras: Any
    model: Any
    params: Any

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
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is needed")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase if callable(multiplier) else True
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self._momentum: Any = None
        if callable(multiplier):
            self.multiplier = multiplier
        else:
            self.multiplier = lambda epoch: multiplier ** (epoch - start_epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out how many steps an epoch has, if that matters."""
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self._find_steps()

    def _find_steps(self) -> int:
        params = self.params or {}
        if params.get("steps"):
            return params["steps"]
        if params.get("samples") and params.get("batch_size"):
            return params["samples"] // params["batch_size"]
        raise ValueError(
            "the number of steps of an epoch is not known; pass steps_per_epoch to "
            f"{type(self).__name__}"
        )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Records the epoch."""
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the learning rate of a batch."""
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if not self.staircase:
            self._set(self.current_epoch + batch / (self.steps_per_epoch or 1))
        elif batch == 0:
            self._set(self.current_epoch)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Restores the optimizer's momentum."""
        if self._momentum is not None:
            self._optimizer().momentum = self._momentum
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds the learning rate to the metrics."""
        if logs is not None:
            take_state_back(self.model)
            logs["lr"] = self._learning_rate()

    def _optimizer(self) -> Any:
        """The optimizer, without the loss scale that may be around it."""
        optimizer = self.model.optimizer
        return getattr(optimizer, "inner_optimizer", optimizer)

    def _learning_rate(self) -> float:
        return float(array_of(self.keras, self._optimizer().learning_rate))

    def _set(self, epoch: float) -> None:
        take_state_back(self.model)
        before = self._learning_rate()
        now = self.initial_lr * self.multiplier(epoch)
        self._optimizer().learning_rate = now
        if self.momentum_correction and before > 0 and not np.isclose(now, before, rtol=1e-7):
            self._correct(now / before)

    def _correct(self, factor: float) -> None:
        optimizer = self._optimizer()
        if "momentum" in getattr(optimizer, "_hyper", {}):
            # An optimizer of old: its momentum is a variable that compiled steps read.
            self._momentum = float(array_of(self.keras, optimizer.momentum))
            optimizer.momentum = self._momentum * factor
        elif getattr(optimizer, "momentum", 0):
            velocities = getattr(optimizer, "momentums", getattr(optimizer, "_momentums", []))
            for velocity in velocities:
                if velocity is not None:
                    velocity.assign(velocity * factor)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Lets the learning rate grow from `initial_lr / size()` to `initial_lr`, batch by batch."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # One step further, so that the last step of the last epoch has the whole rate.
            epoch += 1.0 / (self.steps_per_epoch or 1)
            return 1.0 / size() * (epoch * (size() - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr=initial_lr,
            multiplier=multiplier,
            start_epoch=0,
            end_epoch=warmup_epochs,  # type: ignore[arg-type]
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Prints that the warmup is complete."""
        super().on_epoch_end(epoch, logs)
        if epoch + 1 == self.end_epoch and self.verbose > 0 and rank() == 0:
            print(
                f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to "
                f"{self._learning_rate():g}.",
                flush=True,
            )
