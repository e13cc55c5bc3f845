"""Elastic training with `horovod.keras`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from horovod._keras import elastic as _impl

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class KerasState(_impl.KerasState):
    """Model, optimizer and other attributes that survive a change of the job's ranks.

    The model must have been built; its own optimizer is meant if none is given.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(keras, model, optimizer, **kwargs)


class CommitStateCallback(_impl.CommitState, keras.callbacks.Callback):
    """Commits the state every few batches, and at the end of each epoch."""


class UpdateBatchStateCallback(_impl.UpdateBatchState, keras.callbacks.Callback):
    """Keeps the number of the batch in `state.batch`."""


class UpdateEpochStateCallback(_impl.UpdateEpochState, keras.callbacks.Callback):
    """Keeps the number of complete epochs in `state.epoch`."""


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `func(state, ...)` go on after ranks were lost or hosts have changed."""
    return _impl.run(keras, func)
