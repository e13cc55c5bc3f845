"""The differentiable collectives.

The gradients of allgather and broadcast are averages over the ranks, not sums: if every rank
computes the same loss, gradients then have the size they would have in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from horovod.common.collectives import is_root
from horovod.common.handles import synchronize
from horovod.common.process_sets import ProcessSet, set_rank, set_size
from horovod.common.util import Average, Sum
from horovod.torch.async_ops import (
    allgather_async,
    allreduce_async,
    alltoall_async,
    broadcast_async,
    reducescatter_async,
)


class Allreduce(torch.autograd.Function):
    """Gradient: the same reduction of the gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        """Starts the operation and waits for it."""
        ctx.arguments = (op, prescale_factor, postscale_factor, process_set)
        handle = allreduce_async(tensor, None, name, *ctx.arguments)
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Reduces the gradients of all ranks."""
        handle = allreduce_async(grad_outputs[0].contiguous(), None, None, *ctx.arguments)
        return synchronize(handle), None, None, None, None, None


class Allgather(torch.autograd.Function):
    """Gradient: the average over all ranks, of which this rank's rows are returned."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        """Starts the operation and waits for it."""
        ctx.rows = rows_of(tensor)
        ctx.process_set = process_set
        return synchronize(allgather_async(tensor, name, process_set))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Averages the gradients and cuts out this rank's rows."""
        return own_rows_of_average(grad_outputs[0], ctx.rows, ctx.process_set), None, None


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
        grad = roots_average(grad_outputs[0], ctx.root_rank, ctx.process_set)
        return grad, None, None, None


class Alltoall(torch.autograd.Function):
    """Gradient: the rows travel back to where they came from."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        splits: torch.Tensor | Sequence[int] | None,
        name: str | None,
        process_set: ProcessSet,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Starts the operation and waits for it."""
        output, received_splits = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.shape = tensor.shape
        ctx.received_splits = received_splits
        ctx.process_set = process_set
        ctx.mark_non_differentiable(received_splits)
        return output, received_splits

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Sends each row's gradient back; rows that were not sent have gradient zero."""
        grad = sent_back(grad_outputs[0], ctx.received_splits, ctx.shape, ctx.process_set)
        return grad, None, None, None


class Reducescatter(torch.autograd.Function):
    """Gradient: the shares of all ranks, gathered; times the number of ranks for Sum."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
    ) -> torch.Tensor:
        """Starts the operation and waits for it."""
        handle = reducescatter_async(
            tensor, name, op, process_set, prescale_factor, postscale_factor
        )
        ctx.factor = (
            prescale_factor * postscale_factor * (set_size(process_set) if op == Sum else 1)
        )
        ctx.process_set = process_set
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gathers the scaled gradients."""
        grad = grad_outputs[0] if ctx.factor == 1 else grad_outputs[0] * ctx.factor
        handle = allgather_async(grad.contiguous(), None, ctx.process_set)
        return synchronize(handle), None, None, None, None, None


def rows_of(tensor: torch.Tensor) -> int:
    """How many rows a tensor contributes to a gathered one."""
    return tensor.shape[0] if tensor.dim() > 0 else 1


def own_rows_of_average(grad: torch.Tensor, rows: int, process_set: ProcessSet) -> torch.Tensor:
    """Averages the gradient of gathered rows over the ranks and cuts out this rank's."""
    rows_handle = allgather_async(torch.tensor([rows], dtype=torch.int64), None, process_set)
    average = synchronize(_average_async(grad, process_set))
    rows_by_rank = synchronize(rows_handle).tolist()
    return average.narrow(0, sum(rows_by_rank[: set_rank(process_set)]), rows)


def roots_average(grad: torch.Tensor, root_rank: int, process_set: ProcessSet) -> torch.Tensor:
    """Averages the gradient over the ranks for the root; ranks that only received get zeros."""
    average = synchronize(_average_async(grad, process_set))
    return average if is_root(root_rank) else average.zero_()


def sent_back(
    grad: torch.Tensor, received_splits: torch.Tensor, shape: torch.Size, process_set: ProcessSet
) -> torch.Tensor:
    """Sends each row's gradient to where the row came from; rows that stayed have none."""
    handle = alltoall_async(grad.contiguous(), received_splits, None, process_set)
    returned, _ = synchronize(handle)
    if returned.shape == shape:
        return returned
    whole = returned.new_zeros(shape)
    whole[: returned.shape[0]] = returned
    return whole


def _average_async(grad: torch.Tensor, process_set: ProcessSet) -> int:
    return allreduce_async(grad.contiguous(), op=Average, process_set=process_set)
