"""Reducescatter of a group of tensors, which start together and have one handle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from horovod.common import grouped
from horovod.common.handles import synchronize, then
from horovod.common.process_sets import ProcessSet, global_process_set, registered_set, usable_id
from horovod.common.util import Average
from horovod.torch import staging
from horovod.torch.compression import Compression, Compressor
from horovod.torch.operators import describe, differentiate, is_compiling, operator
from horovod.torch.ops import group
from horovod.torch.ops.grouped_allgather import grouped_allgather_async
from horovod.torch.ops.reducescatter import gradient_factor, share_of
from horovod.torch.tensors import reducible_view, rows_view


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Combines each tensor of the group (Average or Sum), returns this rank's shares of rows."""
    compressed, contexts = group.compress(compression, tensors)
    scaling = (prescale_factor, postscale_factor)
    if is_compiling():
        reduced = _operator(compressed, name, op, *scaling, usable_id(process_set))
    else:
        reduced = GroupedReducescatter.apply(name, op, process_set, *scaling, *compressed)
    return group.decompress(compression, reduced, contexts)


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts combining each tensor of the group and keeping this rank's shares of the rows."""
    tensors = grouped.tensor_list(tensors)
    device = staging.group_device(tensors)
    if device is not None:
        hosts = [staging.to_host(tensor) for tensor in tensors]
        handle = grouped_reducescatter_async(
            hosts, name, op, process_set, prescale_factor, postscale_factor
        )
        return then(handle, partial(staging.all_to_device, device=device))
    sources = [rows_view(tensor) for tensor in tensors]
    for tensor in tensors:
        reducible_view(tensor, op)
    scaling = (prescale_factor, postscale_factor)
    finishes = [group.converting(tensor.dtype) for tensor in tensors]
    return grouped.grouped_reducescatter(sources, name, op, scaling, process_set, finishes)


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
        ctx.factor = gradient_factor(op, prescale_factor, postscale_factor, process_set)
        ctx.process_set = process_set
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gathers the scaled gradients."""

        def gather(grads: list[torch.Tensor]) -> list[torch.Tensor]:
            scaled = grads if ctx.factor == 1 else [grad * ctx.factor for grad in grads]
            return synchronize(grouped_allgather_async(scaled, None, ctx.process_set))

        return None, None, None, None, None, *group.each_gradient(gather, grad_outputs)


@operator(
    "grouped_reducescatter(Tensor[] tensors, str? name, int op, float prescale, float postscale,"
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
    handle = grouped_reducescatter_async(
        group.contiguous(tensors), name, op, members, prescale, postscale
    )
    return synchronize(handle)


@operator(
    "grouped_reducescatter_gradient(Tensor[] grads, SymInt[] rows, int process_set) -> Tensor[]"
)
def _gradient(
    grads: Sequence[torch.Tensor], rows: Sequence[int], process_set: int
) -> list[torch.Tensor]:
    # All shares together have so many rows, which the compiler wants to know in advance.
    members = registered_set(process_set)
    return synchronize(grouped_allgather_async(group.contiguous(grads), None, members))


def _backward(ctx: Any, grads: Sequence[Any]) -> Any:
    op, prescale, postscale, process_set = ctx.arguments
    factor = gradient_factor(op, prescale, postscale, registered_set(process_set))
    rows = group.rows_of_gradients(ctx, grads)

    def gather(some: list[torch.Tensor]) -> list[torch.Tensor]:
        return _gradient([grad * factor for grad in some], rows, process_set)

    return group.each_gradient(gather, grads), None, None, None, None, None


describe(
    _operator,
    lambda tensors, *others: [share_of(tensor, others[-1]) for tensor in tensors],
)
describe(_gradient, group.with_rows)
differentiate(_operator, _backward, group.keep_rows)
