"""Gradients between ranks, for the optimizer and the trainer.

The sum of all ranks replaces a gradient in its array; its division by their number is left to the
optimizer, which scales gradients in any case (`rescale_grad`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horovod.common.build import rocm_built
from horovod.common.process_sets import ProcessSet
from horovod.common.util import Sum, split_list
from horovod.mxnet.mpi_ops import allreduce_, grouped_allreduce_


class GradientReduction:
    """How gradients are reduced; does nothing on ranks that are not in the process set."""

    def __init__(self, predivide_factor: float, num_groups: int, process_set: ProcessSet) -> None:
        if predivide_factor != 1.0 and rocm_built():
            raise ValueError("gradient_predivide_factor is not possible with ROCm")
        ranks = process_set.size()
        if ranks is None:
            raise ValueError(f"{process_set} is not registered; call hvd.init() first")
        self.num_groups = num_groups
        self.process_set = process_set
        self.is_active = ranks > 1 and bool(process_set.included())
        self.prescale = 1.0 / predivide_factor if self.is_active else 1.0
        self.rescale = predivide_factor / ranks if self.is_active else 1.0
        """By how much the optimizer must scale gradients in addition."""

    def reduce(self, names: Sequence[str], tensors: Sequence[Any]) -> None:
        """Replaces gradients with their sums; the first ones are needed first."""
        if not self.is_active or not tensors:
            return
        if self.num_groups > 0:
            self._reduce_groups(names, tensors)
            return
        for position, (name, tensor) in enumerate(zip(names, tensors)):
            allreduce_(
                tensor,
                name=name,
                priority=-position,
                prescale_factor=self.prescale,
                process_set=self.process_set,
                op=Sum,
            )

    def _reduce_groups(self, names: Sequence[str], tensors: Sequence[Any]) -> None:
        parts = min(self.num_groups, len(tensors))
        for position, part in enumerate(split_list(list(zip(names, tensors)), parts)):
            by_type: dict[Any, list[tuple[str, Any]]] = {}
            for name, tensor in part:
                by_type.setdefault(tensor.dtype, []).append((name, tensor))
            for members in by_type.values():
                grouped_allreduce_(
                    [tensor for _, tensor in members],
                    name=f"{members[0][0]}:{members[-1][0]}",
                    priority=-position,
                    prescale_factor=self.prescale,
                    process_set=self.process_set,
                    op=Sum,
                )
