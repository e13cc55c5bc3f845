"""Elastic training with `horovod.keras`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from horovod._keras import elastic as _impl
from horovod._keras.elastic import *  # noqa: F403
from horovod._keras.package import callback_classes

__all__ = ["KerasState", "run"]
__all__ += _impl.__all__


class KerasState(_impl.KerasState):
    """Model, optimizer and other attributes that survive a change of the job's ranks.

    The model must have been built; its own optimizer is meant if none is given.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(keras, model, optimizer, **kwargs)


globals().update(callback_classes(_impl, keras, __name__))


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `func(state, ...)` go on after ranks were lost or hosts have changed."""
    return _impl.run(keras, func)
