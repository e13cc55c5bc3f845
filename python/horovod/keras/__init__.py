"""Horovod for Keras, on TensorFlow, PyTorch or JAX. `horovod._keras` defines what is here."""

from __future__ import annotations

from typing import Any

try:
    import keras
except ModuleNotFoundError as _error:
    if _error.name != "keras":
        raise
    raise ImportError(
        "horovod.keras needs Keras, which is not installed: pip install keras"
    ) from _error

from horovod import _keras as _impl
from horovod._keras import exports as _exports
from horovod._keras.api import KerasApi
from horovod._keras.exports import *  # noqa: F403
from horovod._keras.exports import Average, ProcessSet, global_process_set
from horovod.keras import callbacks, elastic

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "elastic",
    "load_model",
    "reducescatter",
]
__all__ += _exports.__all__

_api = KerasApi(keras, __name__)
Compression = _api.Compression
PartialDistributedOptimizer = _api.PartialDistributedOptimizer
allgather = _api.allgather
allreduce = _api.allreduce
broadcast = _api.broadcast
broadcast_global_variables = _api.broadcast_global_variables
load_model = _api.load_model
reducescatter = _api.reducescatter
_impl.watch(keras)


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    num_groups: int = 0,
    groups: Any = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Wraps an optimizer of Keras: gradients are those of all ranks, averaged or summed.

    The result is an optimizer of the same name, which is saved as if it was not wrapped.
    """
    return _impl.create_distributed_optimizer(
        keras=keras,
        optimizer=optimizer,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        groups=groups,
        process_set=process_set,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        num_groups=num_groups,
        scale_local_gradients=scale_local_gradients,
    )
