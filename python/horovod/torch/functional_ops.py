"""The collectives as operators of PyTorch, `torch.ops.horovod.*`, for compiled graphs.

`torch.compile` cannot look into a collective. Each operator here has a description of its result
for the compiler, and a gradient; the functions of `mpi_ops` use them while something is compiled.
Arguments are what a graph can hold, hence numbers instead of process sets.
"""

from __future__ import annotations

from typing import Any

import torch

from horovod.common.handles import synchronize
from horovod.common.process_sets import registered_set, set_rank, set_size
from horovod.common.util import Sum
from horovod.torch import gradients
from horovod.torch.async_ops import (
    allgather_async,
    allreduce_async,
    alltoall_async,
    broadcast_async,
    reducescatter_async,
)
from horovod.torch.operators import describe, differentiate, like, new_size, operator


@operator(
    "(Tensor tensor, str? name, int op, float prescale, float postscale, int process_set) -> Tensor"
)
def allreduce(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> torch.Tensor:
    """Combines the tensors of all ranks."""
    members = registered_set(process_set)
    handle = allreduce_async(tensor.contiguous(), None, name, op, prescale, postscale, members)
    return synchronize(handle)


@operator("(Tensor tensor, str? name, int process_set) -> Tensor")
def allgather(tensor: torch.Tensor, name: str | None, process_set: int) -> torch.Tensor:
    """Concatenates the tensors of all ranks."""
    handle = allgather_async(tensor.contiguous(), name, registered_set(process_set))
    return synchronize(handle)


@operator("(Tensor grad, SymInt rows, int process_set) -> Tensor")
def allgather_gradient(grad: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    """Averages gradients of gathered rows and returns a copy of this rank's."""
    return gradients.own_rows_of_average(grad, rows, registered_set(process_set)).clone()


@operator("(Tensor tensor, int root_rank, str? name, int process_set) -> Tensor")
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: int
) -> torch.Tensor:
    """Returns the root's tensor."""
    members = registered_set(process_set)
    return synchronize(broadcast_async(tensor.contiguous(), root_rank, name, members))


@operator("(Tensor grad, int root_rank, int process_set) -> Tensor")
def broadcast_gradient(grad: torch.Tensor, root_rank: int, process_set: int) -> torch.Tensor:
    """Averages gradients for the root; zeros for the others."""
    return gradients.roots_average(grad, root_rank, registered_set(process_set))


@operator("(Tensor tensor, Tensor? splits, str? name, int process_set) -> (Tensor, Tensor)")
def alltoall(
    tensor: torch.Tensor, splits: torch.Tensor | None, name: str | None, process_set: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sends rows to each rank; returns the received ones and how many came from each."""
    members = registered_set(process_set)
    return synchronize(alltoall_async(tensor.contiguous(), splits, name, members))


@operator("(Tensor grad, Tensor received_splits, SymInt rows, int process_set) -> Tensor")
def alltoall_gradient(
    grad: torch.Tensor, received_splits: torch.Tensor, rows: int, process_set: int
) -> torch.Tensor:
    """Sends the gradients of rows back."""
    shape = torch.Size([rows, *grad.shape[1:]])
    return gradients.sent_back(grad, received_splits, shape, registered_set(process_set))


@operator(
    "(Tensor tensor, str? name, int op, float prescale, float postscale, int process_set) -> Tensor"
)
def reducescatter(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> torch.Tensor:
    """Combines the tensors of all ranks and returns this rank's share of the rows."""
    members = registered_set(process_set)
    handle = reducescatter_async(tensor.contiguous(), name, op, members, prescale, postscale)
    return synchronize(handle)


@operator("(Tensor grad, SymInt rows, int process_set) -> Tensor")
def reducescatter_gradient(grad: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    """Gathers the gradients of all shares, which have so many rows together."""
    return synchronize(allgather_async(grad.contiguous(), None, registered_set(process_set)))


def share_of(tensor: torch.Tensor, process_set: int) -> torch.Tensor:
    """What this rank gets of a tensor whose rows are shared out."""
    members = registered_set(process_set)
    shortest, longer = divmod(tensor.shape[0], set_size(members))
    return like(tensor, shortest + 1 if set_rank(members) < longer else shortest)


def scatter_factor(op: int, prescale: float, postscale: float, process_set: int) -> float:
    """By what the gradient of a reducescatter is larger than the gradients of its shares."""
    factor = set_size(registered_set(process_set)) if op == Sum else 1
    return factor * prescale * postscale


def _describe_alltoall(tensor: torch.Tensor, splits: Any, name: Any, process_set: int) -> Any:
    device = "cpu" if splits is None else splits.device
    members = registered_set(process_set)
    received_splits = torch.empty(set_size(members), dtype=torch.int32, device=device)
    return like(tensor, new_size()), received_splits


describe(allreduce, lambda tensor, *_: like(tensor))
describe(allgather, lambda tensor, *_: like(tensor, new_size()))
describe(allgather_gradient, lambda grad, rows, _: like(grad, rows))
describe(broadcast, lambda tensor, *_: like(tensor))
describe(broadcast_gradient, lambda grad, *_: like(grad))
describe(alltoall, _describe_alltoall)
describe(alltoall_gradient, lambda grad, splits, rows, _: like(grad, rows))
describe(reducescatter, lambda tensor, *others: share_of(tensor, others[-1]))
describe(reducescatter_gradient, lambda grad, rows, _: like(grad, rows))


def keep_arguments(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps everything but the tensors and the operation's name for the gradient."""
    ctx.arguments = inputs[2:]


def _keep_arguments_and_rows(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.arguments, ctx.rows = inputs[2:], inputs[0].shape[0]


def _keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rows, ctx.process_set = gradients.rows_of(inputs[0]), inputs[-1]


def _keep_rows_and_splits(ctx: Any, inputs: Any, output: Any) -> None:
    _keep_rows(ctx, inputs, output)
    ctx.save_for_backward(output[1])


def _keep_root(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.root_rank, ctx.process_set = inputs[1], inputs[3]


def _allreduce_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return allreduce(grad, None, *ctx.arguments), None, None, None, None, None


def _allgather_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return allgather_gradient(grad, ctx.rows, ctx.process_set), None, None


def _broadcast_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return broadcast_gradient(grad, ctx.root_rank, ctx.process_set), None, None, None


def _alltoall_backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
    (received_splits,) = ctx.saved_tensors
    returned = alltoall_gradient(grad, received_splits, ctx.rows, ctx.process_set)
    return returned, None, None, None


def _reducescatter_backward(ctx: Any, grad: torch.Tensor) -> Any:
    scaled = grad * scatter_factor(*ctx.arguments)
    gathered = reducescatter_gradient(scaled, ctx.rows, ctx.arguments[-1])
    return gathered, None, None, None, None, None


differentiate(allreduce, _allreduce_backward, keep_arguments)
differentiate(allgather, _allgather_backward, _keep_rows)
differentiate(broadcast, _broadcast_backward, _keep_root)
differentiate(alltoall, _alltoall_backward, _keep_rows_and_splits)
differentiate(reducescatter, _reducescatter_backward, _keep_arguments_and_rows)
