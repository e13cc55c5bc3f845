"""Gradients added up over several backward passes before they are reduced, eagerly or in a
`tf.function`: sums and counter are variables that are made when the gradients are first seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.gradient_aggregation import dense_gradient, require_passes, split_local
from horovod.tensorflow.mpi_ops import size_op as size_op
from horovod.tensorflow.util import reference, set_size_number


class LocalGradientAggregationHelperEager:
    """Adds up gradients. Sums are emptied after each reduction, so that an infinite gradient does
    not outlive its step.
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[list[Any], list[Any]], list[Any]],
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        self.backward_passes_per_step = require_passes(backward_passes_per_step)
        self.allreduce_grads = allreduce_func
        self.sparse_as_dense = sparse_as_dense
        self.average_aggregated_gradients = average_aggregated_gradients
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self.counter = tf.Variable(0, dtype=tf.int32, trainable=False)
        self.locally_aggregated_grads: dict[int, tf.Variable] = {}
        self.local_vars: set[Any] = set()

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self.local_vars.add(reference(var))

    def compute_gradients(self, grads: Any, vars: Any) -> list[Any]:
        """The reduced sums if this pass is the last of a step, else the gradients as they are."""
        gradients = [dense_gradient(gradient, self.sparse_as_dense) for gradient in grads]
        variables = list(vars)
        if self.backward_passes_per_step == 1:
            return self._reduce(gradients, variables)
        places = [place for place, gradient in enumerate(gradients) if gradient is not None]
        sums = [self._sum(place, gradients[place]) for place in places]
        for place, total in zip(places, sums):
            total.assign_add(gradients[place])
        self.counter.assign_add(1)

        def last() -> list[Any]:
            collected: list[Any] = [None] * len(gradients)
            for place, total in zip(places, sums):
                collected[place] = self._average(total.read_value())
            reduced = self._reduce(collected, variables)
            found = [tf.convert_to_tensor(reduced[place]) for place in places]
            self.counter.assign(0)
            for total in sums:
                total.assign(tf.zeros_like(total))
            return found

        def not_last() -> list[Any]:
            return [tf.identity(gradients[place]) for place in places]

        is_last = tf.equal(self.counter, self.backward_passes_per_step)
        results = tf.cond(is_last, last, not_last)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        for place, gradient in zip(places, results):
            gradients[place] = gradient
        return gradients

    def _sum(self, place: int, gradient: Any) -> tf.Variable:
        if place not in self.locally_aggregated_grads:
            # Outside of the function that is being traced, so that it lives on.
            with tf.init_scope():
                self.locally_aggregated_grads[place] = tf.Variable(
                    tf.zeros(gradient.shape, gradient.dtype), trainable=False
                )
        return self.locally_aggregated_grads[place]

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

        def apply() -> Any:
            apply_grads_closure()
            return optimizer.iterations.read_value()

        def only_count() -> Any:
            optimizer.iterations.assign_add(1)
            return optimizer.iterations.read_value()

        return tf.cond(tf.equal(self.counter, 0), apply, only_count)
