"""A trainer of Gluon that reduces gradients over all ranks."""

from __future__ import annotations

import warnings
from typing import Any

from mxnet.gluon import Trainer

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.mxnet.compression import Compression
from horovod.mxnet.gradients import GradientReduction
from horovod.mxnet.optimizer import DistributedOptimizer


class DistributedTrainer(Trainer):
    """A `gluon.Trainer` without key-value store: gradients travel between ranks instead.

    Trainers that are used at the same time need different prefixes. `gradient_predivide_factor`
    divides gradients before they are summed, and multiplies afterwards.
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Any = None,
        compression: Any = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn(
                "DistributedTrainer takes the optimizer itself, so the DistributedOptimizer around "
                "it was removed",
                stacklevel=2,
            )
            optimizer = optimizer.unwrapped()
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._compression = compression
        self._prefix = prefix or ""
        self._reduction = GradientReduction(gradient_predivide_factor, num_groups, process_set)
        self._scale *= self._reduction.rescale

    def _allreduce_grads(self) -> None:
        """Replaces gradients with their sums over all ranks."""
        if not self._reduction.is_active:
            return
        names, gradients, travelling, contexts = [], [], [], []
        for index, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            gradient = param.list_grad()[0]
            tensor, context = self._compression.compress(gradient)
            names.append(f"{self._prefix}{index}")
            gradients.append(gradient)
            travelling.append(tensor)
            contexts.append(context)
        self._reduction.reduce(names, travelling)
        for gradient, tensor, context in zip(gradients, travelling, contexts):
            if tensor is not gradient:
                gradient[:] = self._compression.decompress(tensor, context)
