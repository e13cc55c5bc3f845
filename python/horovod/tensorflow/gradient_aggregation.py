"""Gradients added up over several backward passes before they are reduced, in graphs.

Sums are kept in variables that are local to the rank. A counter says how many passes are in them;
when it reaches `backward_passes_per_step` the sums are reduced, and the counter starts anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.compatibility import (  # noqa: F401
    apply_op_to_not_none_tensors,
    get_not_none_from_list,
)
from horovod.tensorflow.mpi_ops import size_op as size_op
from horovod.tensorflow.util import reference, set_size_number


def require_passes(backward_passes_per_step: int) -> int:
    """A number of passes above 0, or ValueError."""
    if backward_passes_per_step <= 0:
        raise ValueError(
            f"backward_passes_per_step must be above 0, not {backward_passes_per_step}"
        )
    return backward_passes_per_step


def dense_gradient(gradient: Any, sparse_as_dense: bool) -> Any:
    """A gradient that can be added to others, or ValueError."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    if not sparse_as_dense:
        raise ValueError(
            "tf.IndexedSlices cannot be added up over backward passes; use sparse_as_dense=True"
        )
    return tf.convert_to_tensor(gradient)


def split_local(
    gradients: list[Any], variables: list[Any], local: set[Any]
) -> tuple[list[int], list[int]]:
    """The places of local gradients and of the others; those that are None are in neither."""
    own: list[int] = []
    shared: list[int] = []
    for place, (gradient, variable) in enumerate(zip(gradients, variables)):
        if gradient is not None:
            (own if local and reference(variable) in local else shared).append(place)
    return own, shared


class LocalGradientAggregationHelper:
    """Adds up gradients in a graph."""

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[list[Any], list[Any]], list[Any]],
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        rank: int,
        optimizer_type: str,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        self.backward_passes_per_step = require_passes(backward_passes_per_step)
        self.allreduce_grads = allreduce_func
        self.sparse_as_dense = sparse_as_dense
        self.average_aggregated_gradients = average_aggregated_gradients
        self.rank = rank
        self.optimizer_type = optimizer_type
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self.name = name
        self.counter: Any = None
        self.local_vars: set[Any] = set()
        self._done: list[Any] = []

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self.local_vars.add(reference(var))

    def compute_gradients(self, grads: list[Any], vars: list[Any]) -> list[Any]:
        """The reduced sums if this pass is the last of a step, else the gradients as they are."""
        gradients = [dense_gradient(gradient, self.sparse_as_dense) for gradient in grads]
        self._done = []
        if self.backward_passes_per_step == 1:
            return self._reduce(gradients, list(vars))
        places = [place for place, gradient in enumerate(gradients) if gradient is not None]
        present = [gradients[place] for place in places]
        self.counter = self._variable("aggregation_counter", (), tf.int32)
        sums = [
            self._variable(f"aggregated_gradient_{place}", gradient.shape, gradient.dtype)
            for place, gradient in zip(places, present)
        ]
        passes = self._add(sums, present)

        def last() -> list[Any]:
            with tf.control_dependencies([passes]):
                collected: list[Any] = [None] * len(gradients)
                for place, total in zip(places, sums):
                    collected[place] = self._average(total.read_value())
                reduced = self._reduce(collected, list(vars))
            found = [reduced[place] for place in places]
            with tf.control_dependencies([*found, self.counter.assign(0)]):
                return [tf.identity(gradient) for gradient in found]

        def not_last() -> list[Any]:
            return [tf.identity(gradient) for gradient in present]

        is_last = tf.equal(passes, self.backward_passes_per_step)
        results = _as_list(tf.cond(is_last, last, not_last))
        self._done = results
        for place, gradient in zip(places, results):
            gradients[place] = gradient
        return gradients

    def _variable(self, name: str, shape: Any, dtype: Any) -> Any:
        with tf.compat.v1.variable_scope(f"aggregation_variables_{self.rank}{self.name}"):
            return tf.compat.v1.get_variable(
                name,
                shape=tf.TensorShape(shape).as_list(),
                dtype=dtype,
                trainable=False,
                use_resource=True,
                initializer=tf.compat.v1.zeros_initializer(),
                collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            )

    def _add(self, sums: list[Any], gradients: list[Any]) -> Any:
        """Adds this pass to the sums, which the first pass of a step empties; gives its number."""
        before = self.counter.read_value()
        first = tf.equal(before, 0)
        added = []
        for total, gradient in zip(sums, gradients):
            previous = tf.where(first, tf.zeros_like(gradient), total.read_value())
            added.append(total.assign(previous + gradient, read_value=False))
        with tf.control_dependencies([before, *added]):
            return self.counter.assign_add(1, read_value=True)

    def _average(self, total: Any) -> Any:
        if not self.average_aggregated_gradients:
            return total
        return total / tf.cast(self.backward_passes_per_step, total.dtype)

    def _reduce(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        own, shared = split_local(gradients, variables, self.local_vars)
        results = list(gradients)
        reduced = self.allreduce_grads(
            [gradients[place] for place in shared], [variables[place] for place in shared]
        )
        for place, gradient in zip(shared, reduced):
            results[place] = gradient
        if self.scale_local_gradients:
            for place in own:
                gradient = results[place]
                results[place] = gradient / set_size_number(self.process_set, gradient.dtype)
        return results

    def apply_gradients(
        self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Applies the gradients if this pass was the last of a step; counts it in any case."""
        if self.backward_passes_per_step == 1:
            return apply_grads_closure()

        def apply() -> Any:
            return tf.group(apply_grads_closure())

        def only_count() -> Any:
            step = self._step(optimizer, args, kwargs)
            return tf.no_op() if step is None else tf.group(step.assign_add(tf.ones_like(step)))

        with tf.control_dependencies(self._done):
            is_last = tf.equal(self.counter.read_value(), 0)
            return tf.cond(is_last, apply, only_count)

    def _step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The variable that counts steps."""
        if self.optimizer_type == self._OPTIMIZER_TYPE_KERAS:
            return optimizer.iterations
        return kwargs.get("global_step", args[1] if len(args) > 1 else None)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
