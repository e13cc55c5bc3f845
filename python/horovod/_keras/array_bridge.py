"""Keras on anything else, JAX above all: outside of its steps, what travels are NumPy arrays.

The step of Keras on JAX is one compiled function. On the CPU the reduction of all gradients is part
of it; on other devices the step calls back into Python for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from horovod import numpy as hvd
from horovod._keras.settings import Settings

__all__ = ["Compression", "Steps", "allreduce_compressed", "broadcast_variables", "is_failure"]


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
    """The steps of one optimizer on JAX."""

    def __init__(self, name: str, settings: Settings) -> None:
        if keras.backend.backend() != "jax":
            raise NotImplementedError(
                "DistributedOptimizer needs Keras on TensorFlow, PyTorch or JAX: KERAS_BACKEND is "
                f"{keras.backend.backend()}"
            )
        if settings.backward_passes_per_step > 1:
            raise ValueError(
                "backward_passes_per_step above 1 is not possible on JAX; use "
                "gradient_accumulation_steps of the optimizer"
            )
        self.name = name
        self.settings = settings
        self._local: set[int] = set()

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._local.add(id(variable))

    def apply(
        self,
        optimizer: Any,
        gradients: list[Any],
        variables: list[Any],
        apply: Callable[..., Any],
    ) -> None:
        """Reduces gradients and has the optimizer apply them."""
        apply(self.reduce(gradients, variables), variables)

    def reduce(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        """The gradients of all ranks, in the same order; those that are None stay so."""
        process_set = self.settings.process_set
        results = list(gradients)
        shared = []
        for place, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if id(variable) not in self._local:
                shared.append(place)
            elif self.settings.scale_local_gradients:
                results[place] = gradient / (process_set.size() or 1)
        if not shared or not process_set.included() or (process_set.size() or 1) == 1:
            return results
        for place, gradient in zip(shared, self._call([gradients[place] for place in shared])):
            results[place] = gradient
        return results

    def _call(self, gradients: list[Any]) -> list[Any]:
        """Reduces them in one collective, as part of the compiled step where that is possible."""
        import jax

        if jax.default_backend() == "cpu":
            import horovod.jax as compiled

            return self._reduce(compiled, gradients)
        from jax.experimental import io_callback

        results = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in gradients]
        # In order, or two steps could run into each other.
        return io_callback(self._reduce_arrays, results, *gradients, ordered=True)

    def _reduce_arrays(self, *gradients: Any) -> list[Any]:
        return self._reduce(hvd, [np.asarray(each) for each in gradients])

    def _reduce(self, framework: Any, gradients: list[Any]) -> list[Any]:
        settings = self.settings
        factor = settings.gradient_predivide_factor
        compressed = [settings.compression.compress(each) for each in gradients]
        reduced = framework.grouped_allreduce(
            [array for array, _ in compressed],
            name=f"{self.name}.gradients",
            op=settings.op,
            prescale_factor=1.0 / factor,
            postscale_factor=factor,
            process_set=settings.process_set,
        )
        decompress = settings.compression.decompress
        return [decompress(array, ctx) for array, (_, ctx) in zip(reduced, compressed)]


def broadcast_variables(variables: list[Any], root_rank: int) -> None:
    """Overwrites variables with the root's."""
    arrays = [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]
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


def is_failure(error: Exception) -> bool:
    """Whether this stands for HorovodInternalError: JAX reports what it calls back as text."""
    return "HorovodInternalError" in str(error)
