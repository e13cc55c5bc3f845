"""Allreduce: combines the tensors of all ranks element by element."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from horovod.common import collectives
from horovod.common.handles import pending, synchronize, then
from horovod.common.process_sets import ProcessSet, global_process_set, registered_set, usable_id
from horovod.common.util import Average, handle_average_backwards_compatibility
from horovod.torch import staging, tensors
from horovod.torch.compression import Compression, Compressor
from horovod.torch.operators import describe, differentiate, is_compiling, like, operator
from horovod.torch.tensors import start_in_place


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines the tensors of all ranks element by element and returns the result."""
    op = handle_average_backwards_compatibility(op, average)
    compressed, ctx = compression.compress(tensor)
    scaling = (prescale_factor, postscale_factor)
    if is_compiling():
        reduced = _operator(compressed, name, op, *scaling, usable_id(process_set))
    else:
        reduced = Allreduce.apply(compressed, name, op, *scaling, process_set)
    return compression.decompress(reduced, ctx)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines the tensors of all ranks in place and returns the tensor that was passed."""
    if average is not None:
        op = handle_average_backwards_compatibility(op, average)
    reduction = Average if op is None else op
    handle = start_in_place(
        tensor, name, reduction, prescale_factor, postscale_factor, process_set, True
    )
    if handle is None:
        handle = allreduce_async_(
            tensor, None, name, op, prescale_factor, postscale_factor, process_set
        )
    else:
        pending[handle] = tensor
    return synchronize(handle)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining the tensors of all ranks into a new tensor."""
    op = handle_average_backwards_compatibility(op, average)
    if staging.is_on_gpu(tensor):
        host = staging.to_host(tensor)
        handle = allreduce_async_(
            host, None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(staging.to_device, device=tensor.device))
    source = tensors.reducible_view(tensor, op)
    result = torch.empty(tensor.shape, dtype=tensor.dtype)
    scaling = (prescale_factor, postscale_factor)
    return collectives.allreduce(
        source, tensors.view(result), name, op, scaling, process_set, lambda _: result
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining the tensors of all ranks in place."""
    if average is None:
        handle = start_in_place(
            tensor,
            name,
            Average if op is None else op,
            prescale_factor,
            postscale_factor,
            process_set,
        )
        if handle is not None:
            pending[handle] = tensor
            return handle
    op = handle_average_backwards_compatibility(op, average)
    if staging.is_on_gpu(tensor):
        host = staging.to_host(tensor)
        handle = allreduce_async_(
            host, None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(staging.copy_into, target=tensor))
    target = tensors.reducible_view(tensor, op)
    scaling = (prescale_factor, postscale_factor)
    return collectives.allreduce(target, target, name, op, scaling, process_set, lambda _: tensor)


def average_async(grad: torch.Tensor, process_set: ProcessSet) -> int:
    """Starts averaging a gradient, as the gradients of other operations need it."""
    return allreduce_async(grad.contiguous(), op=Average, process_set=process_set)


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


@operator(
    "allreduce(Tensor tensor, str? name, int op, float prescale, float postscale, int process_set)"
    " -> Tensor"
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
    handle = allreduce_async(tensor.contiguous(), None, name, op, prescale, postscale, members)
    return synchronize(handle)


def keep_arguments(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps everything but the tensors and the operation's name for the gradient."""
    ctx.arguments = inputs[2:]


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    return _operator(grad, None, *ctx.arguments), None, None, None, None, None


describe(_operator, lambda tensor, *_: like(tensor))
differentiate(_operator, _backward, keep_arguments)
