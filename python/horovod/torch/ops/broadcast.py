"""Broadcast: copies the root's tensor to all ranks.

The gradient of the root is an average over the ranks, not a sum, as that of allgather.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from horovod.common import collectives
from horovod.common.handles import synchronize, then
from horovod.common.process_sets import ProcessSet, global_process_set, registered_set, usable_id
from horovod.torch import staging, tensors
from horovod.torch.operators import describe, differentiate, is_compiling, like, operator
from horovod.torch.ops.allreduce import average_async


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Returns the root's tensor; the tensor passed on the other ranks gives shape and type."""
    if is_compiling():
        return _operator(tensor, root_rank, name, usable_id(process_set))
    return Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Overwrites the tensor with the root's and returns it."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts copying the root's tensor into a new tensor on every rank."""
    if staging.is_on_gpu(tensor):
        handle = broadcast_async_(staging.to_host(tensor), root_rank, name, process_set)
        return then(handle, partial(staging.to_device, device=tensor.device))
    tensors.view(tensor)
    result = torch.empty(tensor.shape, dtype=tensor.dtype)
    if collectives.is_root(root_rank):
        result.copy_(tensor.detach())
    return broadcast_async_(result, root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts overwriting the tensor with the root's."""
    if staging.is_on_gpu(tensor):
        handle = broadcast_async_(staging.to_host(tensor), root_rank, name, process_set)
        return then(handle, partial(staging.copy_into, target=tensor))
    view = tensors.view(tensor)
    return collectives.broadcast(view, root_rank, name, process_set, lambda _: tensor)


def _average_for_root(grad: torch.Tensor, root_rank: int, process_set: ProcessSet) -> torch.Tensor:
    """Averages the gradient over the ranks for the root; ranks that only received get zeros."""
    average = synchronize(average_async(grad, process_set))
    return average if collectives.is_root(root_rank) else average.zero_()


class Broadcast(torch.autograd.Function):
    """Gradient: the average over all ranks for the root, zero for the others."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        root_rank: int,
        name: str | None,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        """Starts the operation and waits for it."""
        ctx.root_rank = root_rank
        ctx.process_set = process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Averages the gradients; ranks whose input was not used get zero."""
        grad = _average_for_root(grad_outputs[0], ctx.root_rank, ctx.process_set)
        return grad, None, None, None


@operator("broadcast(Tensor tensor, int root_rank, str? name, int process_set) -> Tensor")
def _operator(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: int
) -> torch.Tensor:
    members = registered_set(process_set)
    return synchronize(broadcast_async(tensor.contiguous(), root_rank, name, members))


@operator("broadcast_gradient(Tensor grad, int root_rank, int process_set) -> Tensor")
def _gradient(grad: torch.Tensor, root_rank: int, process_set: int) -> torch.Tensor:
    return _average_for_root(grad, root_rank, registered_set(process_set))


def _keep_root(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.root_rank, ctx.process_set = inputs[1], inputs[3]


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    return _gradient(grad, ctx.root_rank, ctx.process_set), None, None, None


describe(_operator, lambda tensor, *_: like(tensor))
describe(_gradient, lambda grad, *_: like(grad))
differentiate(_operator, _backward, _keep_root)
