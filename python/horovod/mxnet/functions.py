"""Parameters and Python objects between ranks."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from mxnet.gluon.parameter import DeferredInitializationError, Parameter

from horovod.common import objects
from horovod.common.basics import size
from horovod.mxnet.mpi_ops import broadcast_


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Returns the root's object on every rank."""
    return objects.broadcast_object(obj, root_rank, name)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Returns the objects of all ranks, by rank."""
    return objects.allgather_object(obj, name)


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: str | None = None) -> None:
    """Overwrites parameters, or arrays, with the root's: those of `collect_params()` or of a dict.

    Parameters whose shapes are not known yet are overwritten when they are initialized. Models that
    are broadcast at the same time need different prefixes.
    """
    is_parameters = isinstance(params, Mapping) or type(params).__name__ == "ParameterDict"
    if not is_parameters:
        raise ValueError(
            f"broadcast_parameters takes a dict or what collect_params() returns, not {params!r}"
        )
    if size() == 1:
        return
    tensors = []
    for key in sorted(params.keys()):
        name = f"{prefix or ''}{key}"
        if not isinstance(params[key], Parameter):
            tensors.append(broadcast_(params[key], root_rank, name))
            continue
        try:
            tensors += _broadcast_parameter(params[key], root_rank, name)
        except DeferredInitializationError:
            _broadcast_after_initialization(params[key], root_rank, name)
    for tensor in tensors:
        tensor.wait_to_read()


def _broadcast_parameter(parameter: Any, root_rank: int, name: str) -> list[Any]:
    """Overwrites a parameter with the root's, on each of its devices; returns its arrays."""
    first, *others = parameter.list_data()
    broadcast_(first, root_rank, name)
    for other in others:
        first.copyto(other)
    return [first, *others]


def _broadcast_after_initialization(parameter: Any, root_rank: int, name: str) -> None:
    """Lets the first initialization of a parameter be followed by its broadcast."""
    initialize = parameter._init_impl

    def initialize_and_broadcast(self: Any, *args: Any, **kwargs: Any) -> None:
        del self._init_impl
        initialize(*args, **kwargs)
        _broadcast_parameter(self, root_rank, name)

    parameter._init_impl = types.MethodType(initialize_and_broadcast, parameter)
