"""How gradients become those of all ranks: what optimizers and tapes have in common."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from horovod.common.gradient_options import (
    check_groups,
    check_predivide_factor,
    is_group_count,
)
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Adasum, Average, split_list
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import set_id
from horovod.tensorflow.reductions import allreduce, grouped_allreduce
from horovod.tensorflow.util import if_shared, reference, set_size_number

Gradients = Sequence[Any]


@dataclass(frozen=True)
class ReductionOptions:
    """What users choose about the reduction of gradients."""

    device_dense: str = ""
    device_sparse: str = ""
    compression: type[Compressor] = Compression.none
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    groups: Any = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True

    def __post_init__(self) -> None:
        check_predivide_factor(self.gradient_predivide_factor, self.op)
        check_groups(self.groups)

    @property
    def scaling(self) -> dict[str, Any]:
        """The arguments of a reduction: the division of the average may come in two parts."""
        factor = self.gradient_predivide_factor
        return {"op": self.op, "prescale_factor": 1.0 / factor, "postscale_factor": factor}


class GradientReducer:
    """Reduces lists of gradients. A gradient may be None, dense, or `tf.IndexedSlices`."""

    def __init__(self, name: str, options: ReductionOptions) -> None:
        self.scope = f"{name}_Allreduce"
        self.options = options
        self._local: set[Any] = set()

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._local.add(reference(variable))

    def is_local(self, variable: Any) -> bool:
        """Whether the gradient of a variable stays this rank's own."""
        return bool(self._local) and reference(variable) in self._local

    def __call__(
        self, gradients: Gradients, variables: Gradients, use_generic_names: bool = False
    ) -> list[Any]:
        """Returns the reduced gradients in the same order."""
        results = list(gradients)
        shared = []
        for place, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if self.is_local(variable):
                results[place] = self._scale_local(gradient)
            else:
                shared.append(place)
        reduced = self._reduce_in_graph(
            [results[place] for place in shared],
            [variables[place] for place in shared],
            use_generic_names,
        )
        for place, gradient in zip(shared, reduced):
            results[place] = gradient
        return results

    def _scale_local(self, gradient: Any) -> Any:
        if not self.options.scale_local_gradients:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values / set_size_number(
                self.options.process_set, gradient.values.dtype
            )
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return gradient / set_size_number(self.options.process_set, gradient.dtype)

    def _reduce_in_graph(
        self, gradients: list[Any], variables: list[Any], use_generic_names: bool
    ) -> list[Any]:
        """Outside of graphs, reductions are made one, or each would wait for the one before."""
        if not gradients:
            return []
        groups = self._groups(variables)
        if not tf.executing_eagerly():
            return _reduce(self.scope, self.options, gradients, groups, use_generic_names)
        process_set = self.options.process_set
        compiled = _compiled(
            self.scope,
            replace(self.options, groups=None),
            set_id(process_set),
            process_set.size() or 1,
        )
        return compiled(gradients, groups, use_generic_names)

    def _groups(self, variables: list[Any]) -> tuple[tuple[int, ...], ...] | None:
        """The places of gradients that are reduced together, if that was asked for."""
        groups = self.options.groups
        if groups is None:
            return None
        places = list(range(len(variables)))
        if is_group_count(groups):
            parts = split_list(places, min(groups, len(places)))
            return tuple(tuple(group) for group in parts if group)
        by_variable = {reference(variable): place for place, variable in enumerate(variables)}
        chosen = []
        for group in groups:
            found = [by_variable.pop(reference(variable), None) for variable in group]
            chosen.append(tuple(place for place in found if place is not None))
        chosen += [(place,) for place in by_variable.values()]
        return tuple(group for group in chosen if group)


@functools.lru_cache(maxsize=64)
def _compiled(scope: str, options: ReductionOptions, number: int, size: int) -> Any:
    """The reduction as one function. Tapes live for a step, so it is kept for the next one.

    The number and the size of the process set are in what is traced, so they are part of the key.
    """

    def reduce(gradients: list[Any], groups: Any, use_generic_names: bool) -> list[Any]:
        return _reduce(scope, options, gradients, groups, use_generic_names)

    return tf.function(reduce, autograph=False, jit_compile=False, reduce_retracing=True)


def _reduce(
    scope: str,
    options: ReductionOptions,
    gradients: list[Any],
    groups: Any,
    use_generic_names: bool,
) -> list[Any]:
    with tf.name_scope(scope):
        if options.sparse_as_dense:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return if_shared(
            options.process_set,
            lambda: _reduce_together(options, gradients, groups, use_generic_names),
            lambda: gradients,
        )


def _reduce_together(
    options: ReductionOptions, gradients: list[Any], groups: Any, use_generic_names: bool
) -> list[Any]:
    common = {
        "device_dense": options.device_dense,
        "device_sparse": options.device_sparse,
        "compression": options.compression,
        "process_set": options.process_set,
        "ignore_name_scope": use_generic_names,
        **options.scaling,
    }
    results = list(gradients)
    if groups is None:
        for place, gradient in enumerate(gradients):
            name = f"grad_{place}" if use_generic_names else None
            results[place] = allreduce(gradient, name=name, **_fitting(gradient, common))
        return results
    for group in groups:
        name = f"grad_{group[0]}_{group[-1]}" if use_generic_names else None
        members = [gradients[place] for place in group]
        for place, gradient in zip(group, grouped_allreduce(members, name=name, **common)):
            results[place] = gradient
    return results


def _fitting(gradient: Any, common: dict[str, Any]) -> dict[str, Any]:
    """Rows that are gathered cannot be divided in two parts; the average is the same."""
    if isinstance(gradient, tf.IndexedSlices) and common["op"] != Adasum:
        return {**common, "prescale_factor": 1.0, "postscale_factor": 1.0}
    return common
