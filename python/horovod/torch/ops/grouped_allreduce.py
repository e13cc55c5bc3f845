"""Allreduce of a group of tensors, which start together and have one handle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from horovod.common import grouped
from horovod.common.handles import synchronize, then
from horovod.common.process_sets import ProcessSet, global_process_set, registered_set, usable_id
from horovod.common.util import handle_average_backwards_compatibility
from horovod.torch import staging
from horovod.torch.compression import Compression, Compressor
from horovod.torch.operators import describe, differentiate, is_compiling, like, operator
from horovod.torch.ops import group
from horovod.torch.ops.allreduce import keep_arguments
from horovod.torch.tensors import reducible_view, view


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combines each tensor of the group over all ranks and returns the results."""
    op = handle_average_backwards_compatibility(op, average)
    compressed, contexts = group.compress(compression, tensors)
    scaling = (prescale_factor, postscale_factor)
    if is_compiling():
        reduced = _operator(compressed, name, op, *scaling, usable_id(process_set))
    else:
        reduced = GroupedAllreduce.apply(name, op, *scaling, process_set, *compressed)
    return group.decompress(compression, reduced, contexts)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combines each tensor of the group in place and returns the tensors that were passed."""
    op = handle_average_backwards_compatibility(op, average)
    handle = grouped_allreduce_async_(
        tensors, None, name, op, prescale_factor, postscale_factor, process_set
    )
    return synchronize(handle)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining each tensor of the group into a new tensor."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = grouped.tensor_list(tensors)
    device = staging.group_device(tensors)
    if device is not None:
        hosts = [staging.to_host(tensor) for tensor in tensors]
        handle = grouped_allreduce_async_(
            hosts, None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(staging.all_to_device, device=device))
    sources = [reducible_view(tensor, op) for tensor in tensors]
    results = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in tensors]
    return grouped.grouped_allreduce(
        sources,
        [view(result) for result in results],
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        [group.returning(result) for result in results],
    )


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining each tensor of the group in place."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = grouped.tensor_list(tensors)
    if staging.group_device(tensors) is not None:
        hosts = [staging.to_host(tensor) for tensor in tensors]
        handle = grouped_allreduce_async_(
            hosts, None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(staging.all_copied_into, targets=tensors))
    targets = [reducible_view(tensor, op) for tensor in tensors]
    scaling = (prescale_factor, postscale_factor)
    finishes = [group.returning(tensor) for tensor in tensors]
    return grouped.grouped_allreduce(targets, targets, name, op, scaling, process_set, finishes)


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

        return None, None, None, None, None, *group.each_gradient(reduce, grad_outputs)


@operator(
    "grouped_allreduce(Tensor[] tensors, str? name, int op, float prescale, float postscale,"
    " int process_set) -> Tensor[]"
)
def _operator(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> list[torch.Tensor]:
    members = registered_set(process_set)
    handle = grouped_allreduce_async(
        group.contiguous(tensors), None, name, op, prescale, postscale, members
    )
    return synchronize(handle)


def _backward(ctx: Any, grads: Sequence[Any]) -> Any:
    reduced = group.each_gradient(lambda some: _operator(some, None, *ctx.arguments), grads)
    return reduced, None, None, None, None, None


describe(_operator, lambda tensors, *_: [like(tensor) for tensor in tensors])
differentiate(_operator, _backward, keep_arguments)
