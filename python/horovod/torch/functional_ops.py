"""The collectives as operators of PyTorch, `torch.ops.horovod.*`, for compiled graphs.

`torch.compile` cannot look into a collective. Each operator here has a description of its result
for the compiler, and a gradient; the functions of `mpi_ops` use them while something is compiled.
Arguments are what a graph can hold, hence numbers instead of process sets. Operators never write
into their arguments. They exist from PyTorch 2.4 on; before, a collective breaks the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.library import custom_op

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
from horovod.torch.grouped_async_ops import grouped_allreduce_async

# The schemas are written out: they are the same whatever Python's annotations look like.
_REDUCTION = "int op, float prescale, float postscale, int process_set"


@custom_op(
    "horovod::allreduce",
    mutates_args=(),
    schema=f"(Tensor tensor, str? name, {_REDUCTION}) -> Tensor",
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


@custom_op(
    "horovod::grouped_allreduce",
    mutates_args=(),
    schema=f"(Tensor[] tensors, str? name, {_REDUCTION}) -> Tensor[]",
)
def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> list[torch.Tensor]:
    """Combines each tensor of a group."""
    contiguous = [tensor.contiguous() for tensor in tensors]
    members = registered_set(process_set)
    handle = grouped_allreduce_async(contiguous, None, name, op, prescale, postscale, members)
    return synchronize(handle)


@custom_op(
    "horovod::allgather",
    mutates_args=(),
    schema="(Tensor tensor, str? name, int process_set) -> Tensor",
)
def allgather(tensor: torch.Tensor, name: str | None, process_set: int) -> torch.Tensor:
    """Concatenates the tensors of all ranks."""
    handle = allgather_async(tensor.contiguous(), name, registered_set(process_set))
    return synchronize(handle)


@custom_op(
    "horovod::allgather_gradient",
    mutates_args=(),
    schema="(Tensor grad, SymInt rows, int process_set) -> Tensor",
)
def allgather_gradient(grad: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    """Averages gradients of gathered rows and returns a copy of this rank's."""
    return gradients.own_rows_of_average(grad, rows, registered_set(process_set)).clone()


@custom_op(
    "horovod::broadcast",
    mutates_args=(),
    schema="(Tensor tensor, int root_rank, str? name, int process_set) -> Tensor",
)
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: int
) -> torch.Tensor:
    """Returns the root's tensor."""
    members = registered_set(process_set)
    return synchronize(broadcast_async(tensor.contiguous(), root_rank, name, members))


@custom_op(
    "horovod::broadcast_gradient",
    mutates_args=(),
    schema="(Tensor grad, int root_rank, int process_set) -> Tensor",
)
def broadcast_gradient(grad: torch.Tensor, root_rank: int, process_set: int) -> torch.Tensor:
    """Averages gradients for the root; zeros for the others."""
    return gradients.roots_average(grad, root_rank, registered_set(process_set))


@custom_op(
    "horovod::alltoall",
    mutates_args=(),
    schema="(Tensor tensor, Tensor? splits, str? name, int process_set) -> (Tensor, Tensor)",
)
def alltoall(
    tensor: torch.Tensor, splits: torch.Tensor | None, name: str | None, process_set: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sends rows to each rank; returns the received ones and how many came from each."""
    members = registered_set(process_set)
    return synchronize(alltoall_async(tensor.contiguous(), splits, name, members))


@custom_op(
    "horovod::alltoall_gradient",
    mutates_args=(),
    schema="(Tensor grad, Tensor received_splits, SymInt rows, int process_set) -> Tensor",
)
def alltoall_gradient(
    grad: torch.Tensor, received_splits: torch.Tensor, rows: int, process_set: int
) -> torch.Tensor:
    """Sends the gradients of rows back."""
    shape = torch.Size([rows, *grad.shape[1:]])
    return gradients.sent_back(grad, received_splits, shape, registered_set(process_set))


@custom_op(
    "horovod::reducescatter",
    mutates_args=(),
    schema=f"(Tensor tensor, str? name, {_REDUCTION}) -> Tensor",
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


def _like(tensor: torch.Tensor, rows: Any = None) -> torch.Tensor:
    """A contiguous tensor like another one, perhaps with another number of rows."""
    shape = list(tensor.shape) if rows is None else [rows, *tensor.shape[1:]]
    return tensor.new_empty(shape)


@allgather.register_fake
def _(tensor: torch.Tensor, name: str | None, process_set: int) -> torch.Tensor:
    return _like(tensor, torch.library.get_ctx().new_dynamic_size())


@alltoall.register_fake
def _(tensor: torch.Tensor, splits: Any, name: Any, process_set: int) -> Any:
    device = "cpu" if splits is None else splits.device
    members = registered_set(process_set)
    received_splits = torch.empty(set_size(members), dtype=torch.int32, device=device)
    return _like(tensor, torch.library.get_ctx().new_dynamic_size()), received_splits


@reducescatter.register_fake
def _(tensor: torch.Tensor, name: Any, op: int, pre: float, post: float, process_set: int) -> Any:
    members = registered_set(process_set)
    shortest, longer = divmod(tensor.shape[0], set_size(members))
    return _like(tensor, shortest + 1 if set_rank(members) < longer else shortest)


allreduce.register_fake(lambda tensor, *_: _like(tensor))
grouped_allreduce.register_fake(lambda tensors, *_: [_like(tensor) for tensor in tensors])
broadcast.register_fake(lambda tensor, *_: _like(tensor))
allgather_gradient.register_fake(lambda grad, rows, _: _like(grad, rows))
broadcast_gradient.register_fake(lambda grad, *_: _like(grad))
alltoall_gradient.register_fake(lambda grad, splits, rows, _: _like(grad, rows))


def _keep_arguments(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps everything but the tensor and the operation's name."""
    ctx.arguments = inputs[2:]


def _keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rows, ctx.process_set = inputs[0].shape[0], inputs[-1]


def _keep_rows_and_splits(ctx: Any, inputs: Any, output: Any) -> None:
    _keep_rows(ctx, inputs, output)
    ctx.save_for_backward(output[1])


def _keep_root(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.root_rank, ctx.process_set = inputs[1], inputs[3]


def _allreduce_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return allreduce(grad, None, *ctx.arguments), None, None, None, None, None


def _grouped_allreduce_backward(ctx: Any, grads: Any) -> Any:
    return grouped_allreduce(list(grads), None, *ctx.arguments), None, None, None, None, None


def _allgather_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return allgather_gradient(grad, ctx.rows, ctx.process_set), None, None


def _broadcast_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return broadcast_gradient(grad, ctx.root_rank, ctx.process_set), None, None, None


def _alltoall_backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
    (received_splits,) = ctx.saved_tensors
    returned = alltoall_gradient(grad, received_splits, ctx.rows, ctx.process_set)
    return returned, None, None, None


def _reducescatter_backward(ctx: Any, grad: torch.Tensor) -> Any:
    op, prescale, postscale, process_set = ctx.arguments
    factor = set_size(registered_set(process_set)) if op == Sum else 1
    scaled = grad * (factor * prescale * postscale)
    return allgather(scaled, None, process_set), None, None, None, None, None


allreduce.register_autograd(_allreduce_backward, setup_context=_keep_arguments)
grouped_allreduce.register_autograd(_grouped_allreduce_backward, setup_context=_keep_arguments)
allgather.register_autograd(_allgather_backward, setup_context=_keep_rows)
broadcast.register_autograd(_broadcast_backward, setup_context=_keep_root)
alltoall.register_autograd(_alltoall_backward, setup_context=_keep_rows_and_splits)
reducescatter.register_autograd(_reducescatter_backward, setup_context=_keep_arguments)
