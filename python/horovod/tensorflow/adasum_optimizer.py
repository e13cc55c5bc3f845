"""The v1 optimizer for Adasum, which combines what steps have changed instead of gradients."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.common.basics import size
from horovod.common.util import Adasum
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.gradient_aggregation import require_passes
from horovod.tensorflow.reductions import allreduce


class DistributedDeltaOptimizer(tf.compat.v1.train.Optimizer):
    """Lets every rank take `backward_passes_per_step` steps of its own, then combines how far they
    went by Adasum; all ranks go on from there.
    """

    def __init__(
        self,
        optimizer: Any,
        name: str | None = None,
        use_locking: bool = False,
        device_dense: str = "",
        device_sparse: str = "",
        compression: type[Compressor] = Compression.none,
        backward_passes_per_step: int = 1,
    ) -> None:
        name = name or f"DistributedDelta{type(optimizer).__name__}"
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer = optimizer
        self._device_dense = device_dense
        self._compression = compression
        self._passes = require_passes(backward_passes_per_step)
        self._count: tf.Variable | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The wrapped optimizer's, of this rank alone."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Takes a step, and combines those of all ranks if this is the time."""
        pairs = list(grads_and_vars)
        changed = [variable for gradient, variable in pairs if gradient is not None]
        with tf.init_scope():
            starts = [self._start(variable) for variable in changed]
            count = self._counter()
        first = tf.equal(count.read_value(), 0)
        remembered = [
            start.assign(tf.where(first, variable.read_value(), start.read_value()))
            for start, variable in zip(starts, changed)
        ]
        with tf.control_dependencies(remembered):
            stepped = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        with tf.control_dependencies([stepped]):
            passes = count.assign_add(1, read_value=True)

        def combine() -> Any:
            moved = [self._combine(start, variable) for start, variable in zip(starts, changed)]
            with tf.control_dependencies([tf.group(*moved)]):
                return tf.group(count.assign(0))

        def go_on() -> Any:
            return tf.no_op()

        return tf.cond(tf.equal(passes, self._passes), combine, go_on)

    def _combine(self, start: Any, variable: Any) -> Any:
        delta = variable.read_value() - start.read_value()
        if size() > 1:
            delta = allreduce(
                delta,
                op=Adasum,
                compression=self._compression,
                device_dense=self._device_dense,
            )
        return variable.assign(start.read_value() + delta, read_value=False)

    def _start(self, variable: Any) -> Any:
        return self._zeros_slot(variable, "delta_start", self._name)

    def _counter(self) -> Any:
        """The number of passes since the last combination."""
        if tf.executing_eagerly():
            if self._count is None:
                self._count = tf.Variable(0, trainable=False)
            return self._count
        with tf.compat.v1.variable_scope(self._name, reuse=tf.compat.v1.AUTO_REUSE):
            return tf.compat.v1.get_variable(
                "delta_counter",
                shape=[],
                dtype=tf.int32,
                trainable=False,
                use_resource=True,
                initializer=tf.compat.v1.zeros_initializer(),
            )

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.variables(*args, **kwargs)
