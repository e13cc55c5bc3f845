"""Reducescatter: combines the tensors of all ranks and gives each rank its share of the rows."""

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
    set_size,
    usable_id,
)
from horovod.common.util import Average, Sum
from horovod.torch import staging, tensors
from horovod.torch.compression import Compression, Compressor
from horovod.torch.operators import describe, differentiate, is_compiling, like, operator
from horovod.torch.ops.allgather import allgather_async


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Combines the tensors of all ranks (Average or Sum) and returns this rank's share of rows."""
    compressed, ctx = compression.compress(tensor)
    scaling = (prescale_factor, postscale_factor)
    if is_compiling():
        reduced = _operator(compressed, name, op, *scaling, usable_id(process_set))
    else:
        reduced = Reducescatter.apply(compressed, name, op, process_set, *scaling)
    return compression.decompress(reduced, ctx)


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts combining the tensors of all ranks and keeping this rank's share of the rows."""
    if staging.is_on_gpu(tensor):
        host = staging.to_host(tensor)
        handle = reducescatter_async(host, name, op, process_set, prescale_factor, postscale_factor)
        return then(handle, partial(staging.to_device, device=tensor.device))
    dtype = tensor.dtype
    tensors.reducible_view(tensor, op)
    return collectives.reducescatter(
        tensors.rows_view(tensor),
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        lambda output: tensors.from_output(output, dtype),
    )


def gradient_factor(
    op: int, prescale_factor: float, postscale_factor: float, process_set: ProcessSet
) -> float:
    """By what the gradient of a reducescatter is larger than the gradients of its shares."""
    return prescale_factor * postscale_factor * (set_size(process_set) if op == Sum else 1)


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
        ctx.factor = gradient_factor(op, prescale_factor, postscale_factor, process_set)
        ctx.process_set = process_set
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gathers the scaled gradients."""
        grad = grad_outputs[0] if ctx.factor == 1 else grad_outputs[0] * ctx.factor
        handle = allgather_async(grad.contiguous(), None, ctx.process_set)
        return synchronize(handle), None, None, None, None, None


@operator(
    "reducescatter(Tensor tensor, str? name, int op, float prescale, float postscale,"
    " int process_set) -> Tensor"
)
def _operator(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> torch.Tensor:
    members = registered_set(process_set)
    handle = reducescatter_async(tensor.contiguous(), name, op, members, prescale, postscale)
    return synchronize(handle)


@operator("reducescatter_gradient(Tensor grad, SymInt rows, int process_set) -> Tensor")
def _gradient(grad: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    # All shares together have so many rows, which the compiler wants to know in advance.
    return synchronize(allgather_async(grad.contiguous(), None, registered_set(process_set)))


def share_of(tensor: torch.Tensor, process_set: int) -> torch.Tensor:
    """Describes this rank's share of a tensor whose rows are shared out."""
    members = registered_set(process_set)
    shortest, longer = divmod(tensor.shape[0], set_size(members))
    return like(tensor, shortest + 1 if set_rank(members) < longer else shortest)


def _keep_arguments_and_rows(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.arguments, ctx.rows = inputs[2:], inputs[0].shape[0]


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    op, prescale, postscale, process_set = ctx.arguments
    scaled = grad * gradient_factor(op, prescale, postscale, registered_set(process_set))
    return _gradient(scaled, ctx.rows, process_set), None, None, None, None, None


describe(_operator, lambda tensor, *others: share_of(tensor, others[-1]))
describe(_gradient, lambda grad, rows, _: like(grad, rows))
differentiate(_operator, _backward, _keep_arguments_and_rows)
