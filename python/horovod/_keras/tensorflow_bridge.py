"""Keras on TensorFlow: how gradients and variables meet those of other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horovod._keras.accumulation import count_step, reduce_accumulated
from horovod._keras.settings import Settings
from horovod.common.basics import rank
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.gradient_reduction import GradientReducer, ReductionOptions
from horovod.tensorflow.reductions import allreduce
from horovod.tensorflow.util import is_failure

__all__ = ["Compression", "Steps", "allreduce_compressed", "broadcast_variables", "is_failure"]


class Steps:
    """The steps of one optimizer: what is reduced, when, and when it is applied."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.settings = settings
        options = ReductionOptions(
            device_dense=settings.device_dense,
            device_sparse=settings.device_sparse,
            compression=settings.compression,
            sparse_as_dense=settings.sparse_as_dense,
            op=settings.op,
            gradient_predivide_factor=settings.gradient_predivide_factor,
            groups=settings.groups,
            process_set=settings.process_set,
            scale_local_gradients=settings.scale_local_gradients,
        )
        self.reducer = GradientReducer(name, options)
        self.helper = None if settings.backward_passes_per_step == 1 else self._new_helper(name)

    def _new_helper(self, name: str) -> Any:
        settings = self.settings
        common: dict[str, Any] = {
            "backward_passes_per_step": settings.backward_passes_per_step,
            "allreduce_func": self.reducer,
            "sparse_as_dense": settings.sparse_as_dense,
            "average_aggregated_gradients": settings.average_aggregated_gradients,
            "process_set": settings.process_set,
            "scale_local_gradients": settings.scale_local_gradients,
        }
        with tf.init_scope():
            if tf.executing_eagerly():
                return LocalGradientAggregationHelperEager(**common)
        kind = LocalGradientAggregationHelper._OPTIMIZER_TYPE_KERAS
        return LocalGradientAggregationHelper(rank=rank(), optimizer_type=kind, name=name, **common)

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        if self.helper is None:
            self.reducer.register_local(variable)
        else:
            self.helper.register_local_var(variable)

    def reduce(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        """The gradients of all ranks, or this rank's until it is time to reduce."""
        reduce = self.reducer if self.helper is None else self.helper.compute_gradients
        known = _local_variables()
        with tf.name_scope(self.reducer.scope):
            reduced = reduce(_numbered(gradients), variables)
        if isinstance(self.helper, LocalGradientAggregationHelper):
            # Keras initializes the variables that it knows, and these are not among them.
            new = [each.deref() for each in _local_variables() - known]
            session = tf.compat.v1.keras.backend.get_session()
            session.run(tf.compat.v1.variables_initializer(new))
        return reduced

    def apply(
        self,
        optimizer: Any,
        gradients: list[Any],
        variables: list[Any],
        apply: Callable[..., Any],
    ) -> None:
        """Reduces gradients and has an optimizer of Keras 3 apply them."""
        if self.helper is None:
            if getattr(optimizer, "gradient_accumulation_steps", None):
                apply(self._reduce_when_due(optimizer, gradients, variables), variables)
            else:
                apply(self.reduce(gradients, variables), variables)
            return
        reduced = self.reduce(gradients, variables)
        if not optimizer.built:
            optimizer.build(variables)

        def apply_reduced() -> Any:
            apply(reduced, variables)
            return tf.constant(True)

        def only_count() -> Any:
            count_step(optimizer)
            return tf.constant(False)

        tf.cond(tf.equal(self.helper.counter, 0), apply_reduced, only_count)

    def _reduce_when_due(
        self, optimizer: Any, gradients: list[Any], variables: list[Any]
    ) -> list[Any]:
        dense = [
            tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
            for gradient in gradients
        ]
        return reduce_accumulated(optimizer, dense, variables, self.reduce, tf.cond)


def _local_variables() -> set[Any]:
    return {each.ref() for each in tf.compat.v1.local_variables()}


def _numbered(gradients: list[Any]) -> list[Any]:
    """Gradients with numbers as names. Else they have those of layers, which differ between ranks
    if one of them has made or loaded more models than another.
    """
    if tf.executing_eagerly():
        return gradients
    return [_named(gradient, f"grad_{place}") for place, gradient in enumerate(gradients)]


def _named(gradient: Any, name: str) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            tf.identity(gradient.values, f"{name}_values"),
            tf.identity(gradient.indices, f"{name}_indices"),
            gradient.dense_shape,
        )
    return None if gradient is None else tf.identity(gradient, name)


def broadcast_variables(variables: list[Any], root_rank: int) -> None:
    """Overwrites variables with the root's. Their places say which is which, see above."""

    def assign_all() -> None:
        for place, variable in enumerate(variables):
            variable.assign(mpi_ops.broadcast(variable, root_rank, f"broadcast_variable_{place}"))

    # In one function, or each would wait for the one before.
    tf.function(assign_all, autograph=False, jit_compile=False)()


def allreduce_compressed(value: Any, compression: Any, **options: Any) -> Any:
    """Combines a value that travels in a shorter type."""
    return allreduce(tf.constant(value), compression=compression, **options).numpy()
