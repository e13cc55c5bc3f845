"""Allgather: concatenates the tensors of all ranks.

The gradient is an average over the ranks, not a sum: if every rank computes the same loss,
gradients then have the size they would have in one process.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from horovod.common import collectives
from horovod.common.handles import synchronize, then
from horovod.common.process_sets import (
    ProcessSet,
    global_process_set,
    registered_set,
    set_rank,
    usable_id,
)
from horovod.torch import staging, tensors
from horovod.torch.operators import (
    KNOWS_NEW_SIZES,
    describe,
    differentiate,
    is_compiling,
    like,
    new_size,
    operator,
)
from horovod.torch.ops.allreduce import average_async


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Concatenates the tensors of all ranks; only their first dimensions may differ."""
    if KNOWS_NEW_SIZES and is_compiling():
        return _operator(tensor, name, usable_id(process_set))
    return Allgather.apply(tensor, name, process_set)


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts concatenating the tensors of all ranks; only their first dimensions may differ."""
    if staging.is_on_gpu(tensor):
        handle = allgather_async(staging.to_host(tensor), name, process_set)
        return then(handle, partial(staging.to_device, device=tensor.device))
    dtype = tensor.dtype
    return collectives.allgather(
        tensors.rows_view(tensor),
        name,
        process_set,
        lambda output: tensors.from_output(output, dtype),
    )


def rows_of(tensor: torch.Tensor) -> int:
    """How many rows a tensor contributes to a gathered one."""
    return tensor.shape[0] if tensor.dim() > 0 else 1


def _own_rows_of_average(grad: torch.Tensor, rows: int, process_set: ProcessSet) -> torch.Tensor:
    """Averages the gradient of gathered rows over the ranks and cuts out this rank's."""
    rows_handle = allgather_async(torch.tensor([rows], dtype=torch.int64), None, process_set)
    average = synchronize(average_async(grad, process_set))
    rows_by_rank = synchronize(rows_handle).tolist()
    return average.narrow(0, sum(rows_by_rank[: set_rank(process_set)]), rows)


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
        return _own_rows_of_average(grad_outputs[0], ctx.rows, ctx.process_set), None, None


@operator("allgather(Tensor tensor, str? name, int process_set) -> Tensor")
def _operator(tensor: torch.Tensor, name: str | None, process_set: int) -> torch.Tensor:
    handle = allgather_async(tensor.contiguous(), name, registered_set(process_set))
    return synchronize(handle)


@operator("allgather_gradient(Tensor grad, SymInt rows, int process_set) -> Tensor")
def _gradient(grad: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    # A copy: what an operator returns must not share memory with anything else.
    return _own_rows_of_average(grad, rows, registered_set(process_set)).clone()


def keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps the number of rows and the process set for the gradient."""
    ctx.rows, ctx.process_set = rows_of(inputs[0]), inputs[-1]


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    return _gradient(grad, ctx.rows, ctx.process_set), None, None


describe(_operator, lambda tensor, *_: like(tensor, new_size()))
describe(_gradient, lambda grad, rows, _: like(grad, rows))
differentiate(_operator, _backward, keep_rows)
