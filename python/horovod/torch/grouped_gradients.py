"""The differentiable collectives on groups: the gradients of a group are a group again.

Tensors of integers may be in a group; they have no gradient and are left out on the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from horovod.common.handles import synchronize
from horovod.common.process_sets import ProcessSet, set_rank, set_size
from horovod.common.util import Average, Sum
from horovod.torch.async_ops import allgather_async
from horovod.torch.gradients import rows_of
from horovod.torch.grouped_async_ops import (
    grouped_allgather_async,
    grouped_allreduce_async,
    grouped_reducescatter_async,
)


class GroupedAllreduce(torch.autograd.Function):
    """Gradient: the same reduction of the gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Starts the operations and waits for them."""
        ctx.arguments = (op, prescale_factor, postscale_factor, process_set)
        return tuple(synchronize(grouped_allreduce_async(tensors, None, name, *ctx.arguments)))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Reduces the gradients of all ranks."""

        def reduce(grads: list[torch.Tensor]) -> list[torch.Tensor]:
            return synchronize(grouped_allreduce_async(grads, None, None, *ctx.arguments))

        return None, None, None, None, None, *each_gradient(reduce, grad_outputs)


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
        rows = [n for n, grad in zip(ctx.rows, grad_outputs) if is_gradient(grad)]

        def average(grads: list[torch.Tensor]) -> list[torch.Tensor]:
            return own_rows_of_averages(grads, rows, ctx.process_set)

        return None, None, *each_gradient(average, grad_outputs)


class GroupedReducescatter(torch.autograd.Function):
    """Gradient: the shares of all ranks, gathered; times the number of ranks for Sum."""

    @staticmethod
    def forward(
        ctx: Any,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Starts the operations and waits for them."""
        handle = grouped_reducescatter_async(
            tensors, name, op, process_set, prescale_factor, postscale_factor
        )
        ctx.factor = (
            prescale_factor * postscale_factor * (set_size(process_set) if op == Sum else 1)
        )
        ctx.process_set = process_set
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gathers the scaled gradients."""

        def gather(grads: list[torch.Tensor]) -> list[torch.Tensor]:
            scaled = grads if ctx.factor == 1 else [grad * ctx.factor for grad in grads]
            return synchronize(grouped_allgather_async(scaled, None, ctx.process_set))

        return None, None, None, None, None, *each_gradient(gather, grad_outputs)


def own_rows_of_averages(
    grads: Sequence[torch.Tensor], rows: Sequence[int], process_set: ProcessSet
) -> list[torch.Tensor]:
    """Averages gradients of gathered rows over the ranks and cuts out this rank's of each."""
    own_rows = torch.tensor([rows], dtype=torch.int64)
    rows_handle = allgather_async(own_rows, None, process_set)
    handle = grouped_allreduce_async(grads, op=Average, process_set=process_set)
    averages = synchronize(handle)
    starts = synchronize(rows_handle)[: set_rank(process_set)].sum(dim=0).tolist()
    return [average.narrow(0, at, n) for average, at, n in zip(averages, starts, rows)]


def is_gradient(grad: torch.Tensor | None) -> bool:
    """Whether a tensor of a group has a gradient, which integers have not."""
    return grad is not None and (grad.dtype.is_floating_point or grad.dtype.is_complex)


def each_gradient(
    operation: Callable[[list[torch.Tensor]], Sequence[torch.Tensor]],
    grads: Sequence[torch.Tensor | None],
) -> list[torch.Tensor | None]:
    """Applies an operation to the gradients of a group; None for tensors that have none."""
    results: list[torch.Tensor | None] = [None] * len(grads)
    present = {
        index: grad.contiguous()
        for index, grad in enumerate(grads)
        if grad is not None and is_gradient(grad)
    }
    for index, result in zip(present, operation(list(present.values()))):
        results[index] = result
    return results
