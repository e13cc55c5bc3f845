"""Names of upstream Horovod's `horovod.torch.mpi_ops` that programs import, kept for compatibility.
Nothing in this project needs them, and new code should not use them.

They are the autograd functions behind the differentiable collectives. What else programs reach for
is where upstream has it: `_basics` and `_handle_map` in `horovod.torch.mpi_ops`,
`_DistributedOptimizer` and its attributes `_parameter_names`, `_requires_update` and
`backward_passes_per_step` in `horovod.torch.optimizer`, `_reset` in `horovod.torch.elastic`.
`tests/single/upstream_names.py` lists them all.
"""

from __future__ import annotations

from typing import Any

from horovod.common.util import handle_average_backwards_compatibility
from horovod.torch import gradients, grouped_gradients

HorovodAllgather = gradients.Allgather
HorovodAlltoall = gradients.Alltoall
HorovodBroadcast = gradients.Broadcast
HorovodGroupedAllgather = grouped_gradients.GroupedAllgather
HorovodGroupedReducescatter = grouped_gradients.GroupedReducescatter
HorovodReducescatter = gradients.Reducescatter


class HorovodAllreduce(gradients.Allreduce):
    """Takes the deprecated argument `average` too."""

    @classmethod
    def apply(cls, tensor: Any, average: bool | None, name: Any, op: Any, *others: Any) -> Any:
        """Combines the tensors of all ranks."""
        op = handle_average_backwards_compatibility(op, average)
        return gradients.Allreduce.apply(tensor, name, op, *others)


class HorovodGroupedAllreduce(grouped_gradients.GroupedAllreduce):
    """Takes the deprecated argument `average` too."""

    @classmethod
    def apply(cls, average: bool | None, name: Any, op: Any, *others: Any) -> Any:
        """Combines each tensor of a group."""
        op = handle_average_backwards_compatibility(op, average)
        return grouped_gradients.GroupedAllreduce.apply(name, op, *others)
