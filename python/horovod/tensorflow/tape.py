"""Gradient tapes whose gradients are those of all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.common.gradient_options import groups_argument
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.gradient_reduction import (
    GradientReducer,
    ReductionOptions,
)


class _DistributedGradientTape(tf.GradientTape):
    """What is put in front of the class of a tape. Programs may also derive from it."""

    _reducer: GradientReducer

    def __init__(
        self,
        tape: tf.GradientTape,
        device_dense: str = "",
        device_sparse: str = "",
        compression: type[Compressor] = Compression.none,
        sparse_as_dense: bool = False,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: Any = None,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        super().__init__(persistent, watch_accessed_variables)
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
        self._continue(tape, options)

    def _continue(self, tape: tf.GradientTape, options: ReductionOptions) -> None:
        """Takes over what another tape has recorded."""
        self.__dict__.update(tape.__dict__)
        # The other tape leaves its own `with` block, not this one.
        self._recording = False
        self._reducer = GradientReducer("DistributedGradientTape", options)

    def register_local_source(self, source: Any) -> None:
        """The gradient of this source stays this rank's own, divided by the number of ranks."""
        self._reducer.register_local(source)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        **options: Any,
    ) -> Any:
        """The gradients of all ranks, in the structure of the sources.

        Ranks whose layers have different names need `use_generic_names`.
        """
        gradients = super().gradient(target, sources, output_gradients, **options)
        variables, found = _flat(sources), _flat(gradients)
        reduced = self._reducer(found, variables, use_generic_names)
        if isinstance(sources, (list, tuple)) and len(sources) == len(reduced):
            return reduced
        return tf.nest.pack_sequence_as(sources, reduced)

    def get_local_and_global_gradients(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
    ) -> tuple[list[Any], list[Any]]:
        """(source, gradient) pairs: of local sources, and of the others, which are reduced."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names)
        local: list[Any] = []
        shared: list[Any] = []
        for source, gradient in zip(_flat(sources), _flat(gradients)):
            pairs = local if self._reducer.is_local(source) else shared
            pairs.append((source, gradient))
        return local, shared


def _flat(structure: Any) -> list[Any]:
    """The leaves of a structure; sparse gradients are leaves."""
    if isinstance(structure, (list, tuple)):
        return [leaf for part in structure for leaf in _flat(part)]
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in _flat(structure[key])]
    return [structure]


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Wraps a tape: `gradient` gives the gradients of all ranks."""
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
    base = type(gradtape)
    tape: Any = object.__new__(type(base.__name__, (_DistributedGradientTape, base), {}))
    tape._continue(gradtape, options)
    return tape


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """As DistributedGradientTape, with layers whose gradients stay this rank's own."""
    layers = _layers(local_layers)
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for layer in layers:
        for weight in layer.trainable_weights:
            tape.register_local_source(weight)
    return tape


def _layers(local_layers: Any) -> list[Any]:
    if local_layers is None:
        return []
    layers = list(local_layers) if isinstance(local_layers, (list, tuple)) else [local_layers]
    for layer in layers:
        if not isinstance(layer, tf.keras.layers.Layer):
            raise ValueError(f"local_layers are Keras layers, not {layer!r}")
    return layers
