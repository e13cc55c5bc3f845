"""Keras on anything else, JAX above all: values travel as NumPy arrays.

Gradients do not: the step of such a Keras is one compiled function, which cannot wait for other
ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from horovod import numpy as hvd
from horovod._keras.settings import Settings

__all__ = ["Compression", "Steps", "allreduce_compressed", "broadcast_variables"]


class NoneCompressor:
    """Sends arrays as they are."""

    @staticmethod
    def compress(array: Any) -> tuple[Any, Any]:
        """Returns the array itself."""
        return array, None

    @staticmethod
    def decompress(array: Any, ctx: Any) -> Any:
        """Returns the array itself."""
        return array


class FP16Compressor:
    """Sends numbers with 16 bits: 11 of precision, up to 65504."""

    @staticmethod
    def compress(array: Any) -> tuple[Any, Any]:
        """Casts to float16 unless the array holds integers."""
        if not np.issubdtype(array.dtype, np.floating):
            return array, None
        return array.astype(np.float16), array.dtype

    @staticmethod
    def decompress(array: Any, ctx: Any) -> Any:
        """Casts back to the original type."""
        return array if ctx is None else array.astype(ctx)


class Compression:
    """The compressors to choose from."""

    none = NoneCompressor
    fp16 = FP16Compressor


class Steps:
    """Says that an optimizer cannot be distributed here."""

    def __init__(self, name: str, settings: Settings) -> None:
        raise NotImplementedError(
            "DistributedOptimizer needs Keras on TensorFlow or PyTorch: set KERAS_BACKEND to "
            "tensorflow or torch (callbacks and operations on values work here too)"
        )


def broadcast_variables(variables: list[Any], root_rank: int) -> None:
    """Overwrites variables with the root's."""
    arrays = [np.array(variable) for variable in variables]
    handles = [
        hvd.broadcast_async_(array, root_rank, name=f"broadcast_variables.{place}")
        for place, array in enumerate(arrays)
    ]
    for variable, handle in zip(variables, handles):
        variable.assign(hvd.synchronize(handle))


def allreduce_compressed(value: Any, compression: Any, **options: Any) -> Any:
    """Combines a value that travels in a shorter type."""
    array, ctx = compression.compress(np.asarray(value))
    return compression.decompress(hvd.allreduce(array, **options), ctx)
