"""Allgather of a group of tensors, which start together and have one handle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from horovod.common import grouped
from horovod.common.handles import synchronize, then
from horovod.common.process_sets import (
    ProcessSet,
    global_process_set,
    registered_set,
    set_rank,
    usable_id,
)
from horovod.common.util import Average
from horovod.torch import staging
from horovod.torch.operators import (
    KNOWS_NEW_SIZES,
    describe,
    differentiate,
    is_compiling,
    like,
    new_size,
    operator,
)
from horovod.torch.ops import group
from horovod.torch.ops.allgather import allgather_async, rows_of
from horovod.torch.ops.grouped_allreduce import grouped_allreduce_async
from horovod.torch.tensors import rows_view


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Concatenates each tensor of the group over all ranks; only first dimensions may differ."""
    tensors = grouped.tensor_list(tensors)
    if KNOWS_NEW_SIZES and is_compiling():
        return list(_operator(tensors, name, usable_id(process_set)))
    return list(GroupedAllgather.apply(name, process_set, *tensors))


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts concatenating each tensor of the group; only first dimensions may differ."""
    tensors = grouped.tensor_list(tensors)
    device = staging.group_device(tensors)
    if device is not None:
        hosts = [staging.to_host(tensor) for tensor in tensors]
        handle = grouped_allgather_async(hosts, name, process_set)
        return then(handle, partial(staging.all_to_device, device=device))
    sources = [rows_view(tensor) for tensor in tensors]
    finishes = [group.converting(tensor.dtype) for tensor in tensors]
    return grouped.grouped_allgather(sources, name, process_set, finishes)


def _own_rows_of_averages(
    grads: Sequence[torch.Tensor], rows: Sequence[int], process_set: ProcessSet
) -> list[torch.Tensor]:
    """Averages gradients of gathered rows over the ranks and cuts out this rank's of each."""
    own_rows = torch.tensor([rows], dtype=torch.int64)
    rows_handle = allgather_async(own_rows, None, process_set)
    handle = grouped_allreduce_async(grads, op=Average, process_set=process_set)
    averages = synchronize(handle)
    starts = synchronize(rows_handle)[: set_rank(process_set)].sum(dim=0).tolist()
    return [average.narrow(0, at, n) for average, at, n in zip(averages, starts, rows)]


class GroupedAllgather(torch.autograd.Function):
    """Gradient: the average over all ranks, of which this rank's rows are returned."""

    @staticmethod
    def forward(
        ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Starts the operations and waits for them."""
        ctx.rows = [rows_of(tensor) for tensor in tensors]
        ctx.process_set = process_set
        return tuple(synchronize(grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Averages the gradients and cuts out this rank's rows."""
        rows = group.rows_of_gradients(ctx, grad_outputs)

        def average(grads: list[torch.Tensor]) -> list[torch.Tensor]:
            return _own_rows_of_averages(grads, rows, ctx.process_set)

        return None, None, *group.each_gradient(average, grad_outputs)


@operator("grouped_allgather(Tensor[] tensors, str? name, int process_set) -> Tensor[]")
def _operator(
    tensors: Sequence[torch.Tensor], name: str | None, process_set: int
) -> list[torch.Tensor]:
    members = registered_set(process_set)
    return synchronize(grouped_allgather_async(group.contiguous(tensors), name, members))


@operator("grouped_allgather_gradient(Tensor[] grads, SymInt[] rows, int process_set) -> Tensor[]")
def _gradient(
    grads: Sequence[torch.Tensor], rows: Sequence[int], process_set: int
) -> list[torch.Tensor]:
    own = _own_rows_of_averages(group.contiguous(grads), rows, registered_set(process_set))
    # Copies: what an operator returns must not share memory with anything else.
    return [grad.clone() for grad in own]


def _backward(ctx: Any, grads: Sequence[Any]) -> Any:
    rows, (process_set,) = group.rows_of_gradients(ctx, grads), ctx.arguments
    own = group.each_gradient(lambda some: _gradient(some, rows, process_set), grads)
    return own, None, None


describe(_operator, lambda tensors, *_: [like(tensor, new_size()) for tensor in tensors])
describe(_gradient, group.with_rows)
differentiate(_operator, _backward, group.keep_rows)
