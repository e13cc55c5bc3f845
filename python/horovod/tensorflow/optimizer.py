"""Optimizers that apply the gradients of all ranks.

Here are those of `tf.compat.v1.train`; Keras optimizers are wrapped by `horovod._keras`.
"""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow as tf

from horovod.common.basics import rank
from horovod.common.collectives import require_all_ranks
from horovod.common.gradient_options import groups_argument
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Adasum, Average
from horovod.tensorflow.adasum_optimizer import DistributedDeltaOptimizer
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_reduction import (
    GradientReducer,
    ReductionOptions,
)


class DistributedLegacyOptimizer(tf.compat.v1.train.Optimizer):
    """A v1 optimizer whose gradients are those of all ranks."""

    def __init__(
        self,
        optimizer: Any,
        name: str | None = None,
        use_locking: bool = False,
        device_dense: str = "",
        device_sparse: str = "",
        compression: type[Compressor] = Compression.none,
        sparse_as_dense: bool = False,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        options = ReductionOptions(
            device_dense,
            device_sparse,
            compression,
            sparse_as_dense,
            op,
            gradient_predivide_factor,
            groups,
            process_set,
            scale_local_gradients,
        )
        name = name or f"Distributed{type(optimizer).__name__}"
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer = optimizer
        self._reducer = GradientReducer(name, options)
        self._helper: LocalGradientAggregationHelper | None = None
        if backward_passes_per_step != 1:
            if tf.executing_eagerly():
                raise ValueError(
                    "backward_passes_per_step above 1 does not work eagerly with an optimizer of "
                    "tf.compat.v1.train"
                )
            self._helper = LocalGradientAggregationHelper(
                backward_passes_per_step=backward_passes_per_step,
                allreduce_func=self._reducer,
                sparse_as_dense=options.sparse_as_dense,
                average_aggregated_gradients=average_aggregated_gradients,
                rank=rank(),
                optimizer_type=LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY,
                process_set=options.process_set,
                scale_local_gradients=options.scale_local_gradients,
                name=name,
            )

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own, divided by the number of ranks."""
        if self._helper is None:
            self._reducer.register_local(var)
        else:
            self._helper.register_local_var(var)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The wrapped optimizer's gradients, reduced."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        reduce = self._reducer if self._helper is None else self._helper.compute_gradients
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Has the wrapped optimizer apply gradients."""
        if self._helper is None:
            return self._optimizer.apply_gradients(*args, **kwargs)

        def apply() -> Any:
            return self._optimizer.apply_gradients(*args, **kwargs)

        return self._helper.apply_gradients(apply, self._optimizer, *args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.variables(*args, **kwargs)


_DistributedOptimizer = DistributedLegacyOptimizer
_DistributedAdasumOptimizer = DistributedDeltaOptimizer


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Wraps an optimizer of `tf.compat.v1.train` or of Keras: gradients are those of all ranks."""
    options = ReductionOptions(
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        groups=groups_argument(num_groups, groups),
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("average_aggregated_gradients is not possible with op=hvd.Adasum")
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _keras_optimizer(
            optimizer, name, options, backward_passes_per_step, average_aggregated_gradients
        )
    if op == Adasum:
        require_all_ranks(process_set, "for all ranks")
        return _DistributedAdasumOptimizer(
            optimizer,
            name,
            use_locking,
            device_dense,
            device_sparse,
            compression,
            backward_passes_per_step,
        )
    return _DistributedOptimizer(
        optimizer,
        name,
        use_locking,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        **vars(options),
    )


def _keras_optimizer(
    optimizer: Any,
    name: str | None,
    options: ReductionOptions,
    backward_passes_per_step: int,
    average_aggregated_gradients: bool,
) -> Any:
    """Has the Keras layer, which is loaded only for this, wrap an optimizer of Keras."""
    if not hasattr(optimizer, "get_config"):
        raise ValueError(
            "expected an optimizer of tf.compat.v1.train or of Keras, "
            f"not {type(optimizer).__name__}"
        )
    if options.op == Adasum:
        raise ValueError("op=hvd.Adasum is not possible with a Keras optimizer")
    keras_layer: Any = importlib.import_module("horovod._keras")
    return keras_layer.create_distributed_optimizer(
        keras=tf.keras,
        optimizer=optimizer,
        name=name,
        device_dense=options.device_dense,
        device_sparse=options.device_sparse,
        compression=options.compression,
        sparse_as_dense=options.sparse_as_dense,
        gradient_predivide_factor=options.gradient_predivide_factor,
        op=options.op,
        groups=options.groups,
        process_set=options.process_set,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        scale_local_gradients=options.scale_local_gradients,
    )
