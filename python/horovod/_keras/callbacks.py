"""The callbacks, for any Keras.

Packages derive classes of the same names from these and from a class of their Keras, which sets
`model` and `params`; `keras` is that Keras. Docstrings and signatures are what users see.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from horovod import numpy as hvd
from horovod._keras.package import KerasClass
from horovod._keras.values import broadcast_global_variables
from horovod._keras.versions import bridge, is_keras_3
from horovod.common.objects import allgather_object

__all__ = ["BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "MetricAverageCallback"]


def take_state_back(model: Any) -> None:
    """On JAX the compiled step holds what variables are; this has the model hold it again."""
    sync = getattr(model, "jax_state_sync", None)
    if sync is not None:
        sync()


class BroadcastGlobalVariablesCallback(KerasClass):
    """Makes model and optimizer equal to the root's, after the first batch: only then does all of
    the optimizer's state exist.

    Without it, or weights loaded from the same file, ranks start with different weights and stay
    different. Variables in `local_variables` are left as they are.
    """

    keras: Any
    model: Any

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.broadcast_done = False
        self._local = self._checked(local_variables)

    def _checked(self, local_variables: Any) -> set[int]:
        if local_variables is None:
            return set()
        variables = (
            list(local_variables)
            if isinstance(local_variables, (list, tuple))
            else [local_variables]
        )
        if not all(hasattr(variable, "assign") for variable in variables):
            raise ValueError("local_variables is a variable or a list of variables")
        return {_identity(variable) for variable in variables}

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts once."""
        if self.broadcast_done:
            return
        self.broadcast_done = True
        take_state_back(self.model)
        variables = [v for v in self.model.weights if _identity(v) not in self._local]
        variables += list(variables_of(self.model.optimizer))
        if in_graph_mode(self.keras):
            broadcast_global_variables(self.keras, self.root_rank)
        else:
            bridge(self.keras).broadcast_variables(variables, self.root_rank)


def _identity(variable: Any) -> int:
    """Equal for a variable of Keras 3 and the one of TensorFlow in it."""
    return id(variable._value if hasattr(variable, "path") else variable)


def variables_of(optimizer: Any) -> list[Any]:
    """The state of an optimizer, to which Keras 2 does not count the learning rate."""
    variables = getattr(optimizer, "variables", [])
    found = list(variables() if callable(variables) else variables)
    rate = getattr(optimizer, "_learning_rate", None)
    if hasattr(rate, "assign") and all(each is not rate for each in found):
        found.append(rate)
    return found


def in_graph_mode(keras: Any) -> bool:
    """Whether operations are put into a graph of TensorFlow 1, to be run by a session."""
    if is_keras_3(keras):
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


class MetricAverageCallback(KerasClass):
    """Averages the metrics of an epoch over all ranks.

    Goes before callbacks that look at metrics, such as those that save the best model or lower the
    learning rate, so that they decide alike on all ranks.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        self.device = device
        self._warned = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Averages in place, so that the callbacks that follow see averages."""
        logs = {} if logs is None else logs
        metrics = {name: float(value) for name, value in sorted(logs.items()) if _is_number(value)}
        names = self._common_names(list(metrics))
        if not names:
            return
        values = np.array([metrics[name] for name in names], dtype=np.float64)
        averages = hvd.allreduce(values, name="MetricAverageCallback")
        logs.update(zip(names, averages.tolist()))

    def _common_names(self, names: list[str]) -> list[str]:
        """What every rank has measured; the rest stays as it is."""
        known = allgather_object(names, name="MetricAverageCallback.names")
        common = [name for name in names if all(name in each for each in known)]
        if len(common) < len({name for each in known for name in each}) and not self._warned:
            self._warned = True
            missing = sorted({name for each in known for name in each} - set(common))
            warnings.warn(
                f"metrics that some ranks do not have are not averaged: {', '.join(missing)}",
                stacklevel=3,
            )
        return common


def _is_number(value: Any) -> bool:
    return (
        not isinstance(value, (str, bytes)) and np.ndim(value) == 0 and hasattr(value, "__float__")
    )


class BestModelCheckpoint(KerasClass):
    """Saves the model whenever it is the best so far. The caller sets `filepath`."""

    base_name = "ModelCheckpoint"

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        # Keras wants to see a name that fits; nothing is saved under it.
        settings: dict[str, Any] = {
            "filepath": "best.weights.h5" if save_weights_only else "best.keras",
            "monitor": monitor,
            "verbose": verbose,
            "save_best_only": True,
            "save_weights_only": save_weights_only,
            "mode": mode,
            "save_freq": save_freq,
        }
        super().__init__(**settings)
        self.filepath: Any = None
