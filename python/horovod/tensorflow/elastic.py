"""Elastic training with TensorFlow: what survives a change of the job's ranks, and `run`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from horovod._keras.elastic import KerasState
from horovod.common import elastic
from horovod.common.basics import init, rank, shutdown
from horovod.common.elastic import ObjectState, recognized_failures
from horovod.common.elastic import run_fn as run_fn
from horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from horovod.common.objects import broadcast_object
from horovod.tensorflow.functions import broadcast_object_fn as broadcast_object_fn
from horovod.tensorflow.functions import broadcast_variables
from horovod.tensorflow.util import _executing_eagerly as _executing_eagerly
from horovod.tensorflow.util import is_failure

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `func(state, ...)` go on after ranks were lost or hosts have changed."""
    return elastic.run(func, is_failure, _reset)


def _reset() -> None:
    shutdown()
    init()


class _Values(Protocol):
    """Variables whose values can be read, set and made rank 0's."""

    def read(self) -> list[Any]: ...

    def write(self, values: list[Any]) -> None: ...

    def broadcast(self) -> None: ...


class _EagerValues:
    def __init__(self, variables: Iterable[Any]) -> None:
        self._variables = list(variables)

    def read(self) -> list[Any]:
        return [np.array(variable.numpy()) for variable in self._variables]

    def write(self, values: list[Any]) -> None:
        for variable, value in zip(self._variables, values):
            variable.assign(value)

    def broadcast(self) -> None:
        if self._variables:
            broadcast_variables(self._variables, root_rank=0)


class _GraphValues:
    """All operations are made at the beginning: a graph may be finalized later."""

    def __init__(self, variables: Iterable[Any], session: Any) -> None:
        self._variables = list(variables)
        self._session = session
        with session.graph.as_default():
            self._reads = [variable.read_value() for variable in self._variables]
            self._places = [
                tf.compat.v1.placeholder(variable.dtype.base_dtype, variable.shape)
                for variable in self._variables
            ]
            self._write = tf.group(
                *(each.assign(place) for each, place in zip(self._variables, self._places))
            )
            self._broadcast = broadcast_variables(self._variables, root_rank=0)

    def read(self) -> list[Any]:
        return self._session.run(self._reads)

    def write(self, values: list[Any]) -> None:
        self._session.run(self._write, dict(zip(self._places, values)))

    def broadcast(self) -> None:
        self._session.run(self._broadcast)


def _values_of(variables: Iterable[Any] | None, session: Any) -> _Values:
    if session is None and tf.executing_eagerly():
        if variables is None:
            raise ValueError(
                "TensorFlowState needs variables=[...]: eagerly there are no global variables"
            )
        return _EagerValues(variables)
    session = session or tf.compat.v1.get_default_session()
    if session is None:
        raise ValueError(
            "TensorFlowState needs session=... in a graph, or to be made inside of "
            "`with session.as_default():`"
        )
    if variables is None:
        with session.graph.as_default():
            variables = tf.compat.v1.global_variables()
    return _GraphValues(variables, session)


class TensorFlowState(ObjectState):
    """Variables and other attributes that survive a change of the job's ranks.

    In a graph, variables must be initialized before; all global variables are meant if none are
    given.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        self._values = _values_of(variables, session)
        self._saved_values = self._values.read()
        super().__init__(broadcast_object, rank, **kwargs)

    def save(self) -> None:
        """Copies the values of variables, and keeps the attributes."""
        self._saved_values = self._values.read()
        super().save()

    def restore(self) -> None:
        """Goes back to what was saved last."""
        self._values.write(self._saved_values)
        super().restore()

    def sync(self) -> None:
        """Makes variables and attributes equal to rank 0's, and saves them."""
        with recognized_failures(is_failure):
            self._values.broadcast()
        super().sync()


class TensorFlowKerasState(KerasState):
    """Model, optimizer and other attributes that survive a change of the job's ranks.

    The model must have been built. `backend` is accepted for compatibility: nothing is asked of it.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(tf.keras, model, optimizer, **kwargs)
