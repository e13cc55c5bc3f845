"""Elastic training for any Keras: the state and its callbacks.

Functions and states are given the Keras that they are for; packages derive the callbacks also from
its `keras.callbacks.Callback`, which sets `params`. No framework is imported here: the states of
TensorFlow are made of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from horovod._keras.callbacks import in_graph_mode, take_state_back, variables_of
from horovod._keras.package import KerasClass
from horovod._keras.values import array_of
from horovod._keras.versions import bridge
from horovod.common import elastic
from horovod.common.basics import rank
from horovod.common.elastic import ObjectState, recognized_failures
from horovod.common.objects import broadcast_object

__all__ = ["CommitStateCallback", "UpdateBatchStateCallback", "UpdateEpochStateCallback"]


def run(keras: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `func(state, ...)` go on after ranks were lost or hosts have changed."""
    return elastic.run(func, bridge(keras).is_failure)


class KerasState(ObjectState):
    """Model, optimizer and other attributes that survive a change of the job's ranks."""

    def __init__(self, keras: Any, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if not model.built:
            raise ValueError(
                f"the model {model.name} has no weights yet: before its state is made, build it by "
                "model.build(input_shape) or a first call"
            )
        if in_graph_mode(keras):
            raise ValueError(
                "the state of a Keras model needs eager execution; in a graph use "
                "horovod.tensorflow.elastic.TensorFlowState with a session"
            )
        self._keras = keras
        self.model = model
        self.optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
        self._saved_values = self._read()
        super().__init__(broadcast_object, rank, **kwargs)

    def save(self) -> None:
        """Copies model and optimizer, and keeps the attributes."""
        self._saved_values = self._read()
        super().save()

    def restore(self) -> None:
        """Goes back to what was saved last."""
        for variable, value in zip(self._variables(), self._saved_values):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        """Makes model, optimizer and attributes equal to rank 0's, and saves them."""
        backend = bridge(self._keras)
        with recognized_failures(backend.is_failure):
            backend.broadcast_variables(self._variables(), 0)
        super().sync()

    def _read(self) -> list[Any]:
        # Copies: an array may show the memory of the variable itself.
        return [np.array(array_of(self._keras, each)) for each in self._variables()]

    def _variables(self) -> list[Any]:
        """What there is to keep. The optimizer's part exists on new ranks too, once it is built."""
        take_state_back(self.model)
        if self.optimizer is None:
            return list(self.model.weights)
        _build(self.optimizer, self.model.trainable_variables)
        return [*self.model.weights, *variables_of(self.optimizer)]


def _build(optimizer: Any, variables: list[Any]) -> None:
    """Makes the state that an optimizer would make in its first step."""
    if getattr(optimizer, "built", False) or getattr(optimizer, "_built", False):
        return
    if hasattr(optimizer, "build"):
        optimizer.build(variables)
    elif hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)


class CommitStateCallback(KerasClass):
    """Commits the state every few batches, and at the end of each epoch.

    Goes after the callbacks that update the state, so that their updates are committed too.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 1:
            raise ValueError(f"batches_per_commit must be at least 1, not {batches_per_commit}")
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Starts to count."""
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits if it is time to."""
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.batches_remaining = self.batches_per_commit
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits in any case."""
        self.state.commit()


class UpdateBatchStateCallback(KerasClass):
    """Keeps `state.batch` at the number of the last batch, and at 0 between epochs."""

    params: Any

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out anew how long an epoch is."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """An epoch that was interrupted is only as long as what is left of it."""
        if self.params and self.params.get("steps"):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Records the batch."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The next epoch begins at its beginning."""
        self.state.batch = 0


class UpdateEpochStateCallback(KerasClass):
    """Keeps `state.epoch` at the number of epochs that are complete, over all calls of `fit`."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch
        self._first: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Records how many were complete before."""
        self.initial_epoch = self.state.epoch
        self._first = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Records where this call of `fit` begins to count: `initial_epoch` need not be 0."""
        if self._first is None:
            self._first = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """One more."""
        self.state.epoch = self.initial_epoch + epoch - (self._first or 0) + 1
