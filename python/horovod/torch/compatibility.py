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
from horovod.torch.ops.allgather import Allgather
from horovod.torch.ops.allreduce import Allreduce
from horovod.torch.ops.alltoall import Alltoall
from horovod.torch.ops.broadcast import Broadcast
from horovod.torch.ops.grouped_allgather import GroupedAllgather
from horovod.torch.ops.grouped_allreduce import GroupedAllreduce
from horovod.torch.ops.grouped_reducescatter import GroupedReducescatter
from horovod.torch.ops.reducescatter import Reducescatter

HorovodAllgather = Allgather
HorovodAlltoall = Alltoall
HorovodBroadcast = Broadcast
HorovodGroupedAllgather = GroupedAllgather
HorovodGroupedReducescatter = GroupedReducescatter
HorovodReducescatter = Reducescatter


class HorovodAllreduce(Allreduce):
    """Takes the deprecated argument `average` too."""

    @classmethod
    def apply(cls, tensor: Any, average: bool | None, name: Any, op: Any, *others: Any) -> Any:
        """Combines the tensors of all ranks."""
        op = handle_average_backwards_compatibility(op, average)
        return Allreduce.apply(tensor, name, op, *others)


class HorovodGroupedAllreduce(GroupedAllreduce):
    """Takes the deprecated argument `average` too."""

    @classmethod
    def apply(cls, average: bool | None, name: Any, op: Any, *others: Any) -> Any:
        """Combines each tensor of a group."""
        op = handle_average_backwards_compatibility(op, average)
        return GroupedAllreduce.apply(name, op, *others)
