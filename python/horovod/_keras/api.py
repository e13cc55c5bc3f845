"""The functions that `horovod.keras` and `horovod.tensorflow.keras` offer, defined once.

Signatures and docstrings are what users see. `DistributedOptimizer` is the exception: the order of
its parameters is not the same in both packages, so each has its own.
"""

from __future__ import annotations

from typing import Any

from horovod._keras import values
from horovod._keras.optimizer import create_distributed_optimizer, register_local_layers
from horovod._keras.package import package_function
from horovod._keras.saving import load_model
from horovod._keras.versions import bridge
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average

FUNCTIONS = (
    "PartialDistributedOptimizer",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "load_model",
    "reducescatter",
)


class KerasApi:
    """The functions of a package for one Keras. Its attributes are functions, not methods."""

    def __init__(self, keras: Any, module: str) -> None:
        self.keras = keras
        self.Compression: Any = bridge(keras).Compression
        for name in FUNCTIONS:
            function = package_function(getattr(self, name), module, self.Compression.none)
            setattr(self, name, function)

    def PartialDistributedOptimizer(
        self,
        optimizer: Any,
        name: str | None = None,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = None,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        op: int = Average,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        local_layers: Any = None,
        scale_local_gradients: bool = True,
    ) -> Any:
        """As DistributedOptimizer, with layers whose gradients stay this rank's own."""
        distributed = create_distributed_optimizer(
            keras=self.keras,
            optimizer=optimizer,
            name=name,
            device_dense=device_dense,
            device_sparse=device_sparse,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            op=op,
            groups=groups,
            process_set=process_set,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            scale_local_gradients=scale_local_gradients,
        )
        return register_local_layers(self.keras, distributed, local_layers)

    def broadcast_global_variables(self, root_rank: int) -> None:
        """Overwrites all variables of the graph with the root's; only in graphs of TensorFlow 1."""
        values.broadcast_global_variables(self.keras, root_rank)

    def allreduce(
        self,
        value: Any,
        name: str | None = None,
        average: bool | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        op: int | None = None,
        compression: Any = None,
    ) -> Any:
        """Combines the values of all ranks; the average if nothing else is asked for."""
        if compression is None:
            compression = self.Compression.none
        return values.allreduce(
            self.keras, value, name, average, prescale_factor, postscale_factor, op, compression
        )

    def allgather(self, value: Any, name: str | None = None) -> Any:
        """Concatenates the values of all ranks; only their first dimensions may differ."""
        return values.allgather(self.keras, value, name)

    def broadcast(self, value: Any, root_rank: int, name: str | None = None) -> Any:
        """Returns the root's value; the value passed on the other ranks gives shape and type."""
        return values.broadcast(self.keras, value, root_rank, name)

    def reducescatter(self, value: Any, name: str | None = None, op: int = Average) -> Any:
        """Combines values of all ranks (Average or Sum) and returns this rank's share of rows."""
        return values.reducescatter(self.keras, value, name, op)

    def load_model(
        self,
        filepath: Any,
        custom_optimizers: Any = None,
        custom_objects: dict[str, Any] | None = None,
        compression: Any = None,
        legacy_opts: bool = False,
    ) -> Any:
        """Loads a model, whose optimizer is distributed then and keeps its state.

        `legacy_opts` is accepted for compatibility: the file says which optimizer it is.
        """
        return load_model(self.keras, filepath, custom_optimizers, custom_objects, compression)
