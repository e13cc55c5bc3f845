"""Which form of a collective runs: an autograd function, or an operator while compiling.

Before PyTorch 2.4 the results of allgather and alltoall cannot be part of a graph, because their
sizes are known only when it runs; these operations then break it in two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from horovod.common.process_sets import ProcessSet, usable_id
from horovod.torch import functional_ops, gradients, grouped_functional_ops, grouped_gradients
from horovod.torch.operators import KNOWS_NEW_SIZES

if hasattr(getattr(torch, "compiler", None), "is_compiling"):
    from torch.compiler import is_compiling
else:
    from torch._utils import is_compiling


def allreduce(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
) -> torch.Tensor:
    """Combines the tensors of all ranks."""
    if is_compiling():
        return functional_ops.allreduce(tensor, name, op, *scaling, usable_id(process_set))
    return gradients.Allreduce.apply(tensor, name, op, *scaling, process_set)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
) -> Sequence[torch.Tensor]:
    """Combines each tensor of a group."""
    if is_compiling():
        number = usable_id(process_set)
        return grouped_functional_ops.grouped_allreduce(list(tensors), name, op, *scaling, number)
    return grouped_gradients.GroupedAllreduce.apply(name, op, *scaling, process_set, *tensors)


def allgather(tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> torch.Tensor:
    """Concatenates the tensors of all ranks."""
    if KNOWS_NEW_SIZES and is_compiling():
        return functional_ops.allgather(tensor, name, usable_id(process_set))
    return gradients.Allgather.apply(tensor, name, process_set)


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None, process_set: ProcessSet
) -> Sequence[torch.Tensor]:
    """Concatenates each tensor of a group."""
    if KNOWS_NEW_SIZES and is_compiling():
        number = usable_id(process_set)
        return grouped_functional_ops.grouped_allgather(list(tensors), name, number)
    return grouped_gradients.GroupedAllgather.apply(name, process_set, *tensors)


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
) -> torch.Tensor:
    """Returns the root's tensor."""
    if is_compiling():
        return functional_ops.broadcast(tensor, root_rank, name, usable_id(process_set))
    return gradients.Broadcast.apply(tensor, root_rank, name, process_set)


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None,
    name: str | None,
    process_set: ProcessSet,
) -> Any:
    """Sends rows to each rank; returns the received ones and how many came from each."""
    if KNOWS_NEW_SIZES and is_compiling():
        if splits is not None and not isinstance(splits, torch.Tensor):
            splits = torch.tensor(splits, dtype=torch.int32)
        return functional_ops.alltoall(tensor, splits, name, usable_id(process_set))
    return gradients.Alltoall.apply(tensor, splits, name, process_set)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
) -> torch.Tensor:
    """Combines the tensors of all ranks and returns this rank's share of the rows."""
    if is_compiling():
        return functional_ops.reducescatter(tensor, name, op, *scaling, usable_id(process_set))
    return gradients.Reducescatter.apply(tensor, name, op, process_set, *scaling)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
) -> Sequence[torch.Tensor]:
    """Combines each tensor of a group and returns this rank's shares of the rows."""
    if is_compiling():
        number = usable_id(process_set)
        return grouped_functional_ops.grouped_reducescatter(
            list(tensors), name, op, *scaling, number
        )
    return grouped_gradients.GroupedReducescatter.apply(name, op, process_set, *scaling, *tensors)
