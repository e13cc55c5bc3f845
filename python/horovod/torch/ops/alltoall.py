"""Alltoall: sends rows from every rank to every rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from horovod.common import collectives
from horovod.common.collectives import Output
from horovod.common.handles import synchronize, then
from horovod.common.process_sets import (
    ProcessSet,
    global_process_set,
    registered_set,
    set_size,
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
from horovod.torch.ops.allgather import keep_rows


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends `splits[r]` rows to each rank r (equal parts by default), returns the received rows.

    With splits the result is a pair: the rows, and how many of them came from each rank.
    """
    if KNOWS_NEW_SIZES and is_compiling():
        known_splits = splits
        if splits is not None and not isinstance(splits, torch.Tensor):
            known_splits = torch.tensor(splits, dtype=torch.int32)
        rows, received_splits = _operator(tensor, known_splits, name, usable_id(process_set))
    else:
        rows, received_splits = Alltoall.apply(tensor, splits, name, process_set)
    return rows if splits is None else (rows, received_splits)


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts sending `splits[r]` rows to each rank r, equal parts by default.

    `synchronize` gives the received rows and how many of them came from each rank.
    """
    if staging.is_on_gpu(tensor):
        handle = alltoall_async(staging.to_host(tensor), splits, name, process_set)
        return then(handle, partial(staging.rows_to_device, device=tensor.device, splits=splits))
    dtype = tensor.dtype

    def finish(output: Output) -> tuple[torch.Tensor, torch.Tensor]:
        received_splits = torch.tensor(output.received_splits, dtype=torch.int32)
        return tensors.from_output(output, dtype), received_splits

    rows = tensors.rows_view(tensor)
    return collectives.alltoall(rows, tensors.splits_list(splits), name, process_set, finish)


def _sent_back(
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
        grad = _sent_back(grad_outputs[0], ctx.received_splits, ctx.shape, ctx.process_set)
        return grad, None, None, None


@operator("alltoall(Tensor tensor, Tensor? splits, str? name, int process_set) -> (Tensor, Tensor)")
def _operator(
    tensor: torch.Tensor, splits: torch.Tensor | None, name: str | None, process_set: int
) -> tuple[torch.Tensor, torch.Tensor]:
    members = registered_set(process_set)
    return synchronize(alltoall_async(tensor.contiguous(), splits, name, members))


@operator(
    "alltoall_gradient(Tensor grad, Tensor received_splits, SymInt rows, int process_set) -> Tensor"
)
def _gradient(
    grad: torch.Tensor, received_splits: torch.Tensor, rows: int, process_set: int
) -> torch.Tensor:
    shape = torch.Size([rows, *grad.shape[1:]])
    return _sent_back(grad, received_splits, shape, registered_set(process_set))


def _describe_results(tensor: torch.Tensor, splits: Any, name: Any, process_set: int) -> Any:
    device = "cpu" if splits is None else splits.device
    members = registered_set(process_set)
    received_splits = torch.empty(set_size(members), dtype=torch.int32, device=device)
    return like(tensor, new_size()), received_splits


def _keep_rows_and_splits(ctx: Any, inputs: Any, output: Any) -> None:
    keep_rows(ctx, inputs, output)
    ctx.save_for_backward(output[1])


def _backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
    (received_splits,) = ctx.saved_tensors
    returned = _gradient(grad, received_splits, ctx.rows, ctx.process_set)
    return returned, None, None, None


describe(_operator, _describe_results)
describe(_gradient, lambda grad, splits, rows, _: like(grad, rows))
differentiate(_operator, _backward, _keep_rows_and_splits)
