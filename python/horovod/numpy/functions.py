"""Whole sets of arrays, and Python objects, between ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from horovod.common.objects import allgather_object, broadcast_object
from horovod.numpy.mpi_ops import broadcast_async_, synchronize

__all__ = ["allgather_object", "broadcast_object", "broadcast_parameters"]


def broadcast_parameters(
    params: Mapping[str, np.ndarray[Any, Any]] | Sequence[Any], root_rank: int = 0
) -> None:
    """Overwrites arrays with the root's: a dict, or a list of arrays or (name, array) pairs."""
    for handle in [broadcast_async_(array, root_rank, name=name) for name, array in _named(params)]:
        synchronize(handle)


def _named(
    params: Mapping[str, np.ndarray[Any, Any]] | Sequence[Any],
) -> list[tuple[str | None, np.ndarray[Any, Any]]]:
    if isinstance(params, Mapping):
        return [(name, params[name]) for name in sorted(params)]
    if isinstance(params, (list, tuple)):
        return [item if isinstance(item, tuple) else (None, item) for item in params]
    raise ValueError(
        f"expected a dict or a list of arrays or (name, array) pairs, not {type(params).__name__}"
    )
