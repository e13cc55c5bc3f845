"""Operations on values: numbers, lists, arrays. Results are NumPy arrays or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from horovod import numpy as hvd
from horovod._keras.versions import bridge, is_keras_3
from horovod.common.util import Average, handle_average_backwards_compatibility


def array_of(keras: Any, value: Any) -> Any:
    """A value, perhaps a tensor or a variable of any framework, as an array."""
    if isinstance(value, (int, float, complex, list, tuple, np.ndarray, np.generic)):
        return np.asarray(value)
    if is_keras_3(keras):
        return np.asarray(keras.ops.convert_to_numpy(value))
    return np.asarray(keras.backend.get_value(value))


def allreduce(
    keras: Any,
    value: Any,
    name: str | None,
    average: bool | None,
    prescale_factor: float,
    postscale_factor: float,
    op: int | None,
    compression: Any,
) -> Any:
    """Combines the values of all ranks."""
    options: dict[str, Any] = {
        "name": name,
        "op": handle_average_backwards_compatibility(op, average),
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
    }
    array = array_of(keras, value)
    tensors = bridge(keras)
    if compression is tensors.Compression.none:
        return hvd.allreduce(array, **options)[()]
    return tensors.allreduce_compressed(array, compression, **options)[()]


def allgather(keras: Any, value: Any, name: str | None) -> Any:
    """Concatenates the values of all ranks."""
    return hvd.allgather(array_of(keras, value), name=name)


def broadcast(keras: Any, value: Any, root_rank: int, name: str | None) -> Any:
    """Returns the root's value."""
    return hvd.broadcast(array_of(keras, value), root_rank, name=name)[()]


def reducescatter(keras: Any, value: Any, name: str | None, op: int = Average) -> Any:
    """Combines the values of all ranks and returns this rank's share."""
    return hvd.reducescatter(array_of(keras, value), name=name, op=op)


def broadcast_global_variables(keras: Any, root_rank: int) -> None:
    """Overwrites all variables of the graph with the root's."""
    from horovod.tensorflow import functions

    operation = functions.broadcast_global_variables(root_rank)
    import tensorflow as tf

    tf.compat.v1.keras.backend.get_session().run(operation)
