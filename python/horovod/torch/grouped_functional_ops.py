"""The collectives on groups as operators of PyTorch, for compiled graphs, like `functional_ops`.

Tensors of integers may be in a group; they have no gradient and are left out on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from horovod.common.handles import synchronize
from horovod.common.process_sets import registered_set
from horovod.torch.functional_ops import keep_arguments, scatter_factor, share_of
from horovod.torch.gradients import rows_of
from horovod.torch.grouped_async_ops import (
    grouped_allgather_async,
    grouped_allreduce_async,
    grouped_reducescatter_async,
)
from horovod.torch.grouped_gradients import each_gradient, is_gradient, own_rows_of_averages
from horovod.torch.operators import describe, differentiate, like, new_size, operator


@operator(
    "(Tensor[] tensors, str? name, int op, float prescale, float postscale, int process_set)"
    " -> Tensor[]"
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
    members = registered_set(process_set)
    handle = grouped_allreduce_async(
        _contiguous(tensors), None, name, op, prescale, postscale, members
    )
    return synchronize(handle)


@operator("(Tensor[] tensors, str? name, int process_set) -> Tensor[]")
def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None, process_set: int
) -> list[torch.Tensor]:
    """Concatenates each tensor of a group."""
    handle = grouped_allgather_async(_contiguous(tensors), name, registered_set(process_set))
    return synchronize(handle)


@operator("(Tensor[] grads, SymInt[] rows, int process_set) -> Tensor[]")
def grouped_allgather_gradient(
    grads: Sequence[torch.Tensor], rows: Sequence[int], process_set: int
) -> list[torch.Tensor]:
    """Averages gradients of gathered rows and returns copies of this rank's."""
    own = own_rows_of_averages(_contiguous(grads), rows, registered_set(process_set))
    return [grad.clone() for grad in own]


@operator(
    "(Tensor[] tensors, str? name, int op, float prescale, float postscale, int process_set)"
    " -> Tensor[]"
)
def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> list[torch.Tensor]:
    """Combines each tensor of a group and returns this rank's shares of the rows."""
    members = registered_set(process_set)
    handle = grouped_reducescatter_async(
        _contiguous(tensors), name, op, members, prescale, postscale
    )
    return synchronize(handle)


@operator("(Tensor[] grads, SymInt[] rows, int process_set) -> Tensor[]")
def grouped_reducescatter_gradient(
    grads: Sequence[torch.Tensor], rows: Sequence[int], process_set: int
) -> list[torch.Tensor]:
    """Gathers the gradients of all shares, which have so many rows together."""
    handle = grouped_allgather_async(_contiguous(grads), None, registered_set(process_set))
    return synchronize(handle)


def _contiguous(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.contiguous() for tensor in tensors]


def _with_rows(grads: Sequence[torch.Tensor], rows: Sequence[Any], _: int) -> list[torch.Tensor]:
    return [like(grad, n) for grad, n in zip(grads, rows)]


describe(grouped_allreduce, lambda tensors, *_: [like(tensor) for tensor in tensors])
describe(grouped_allgather, lambda tensors, *_: [like(tensor, new_size()) for tensor in tensors])
describe(grouped_allgather_gradient, _with_rows)
describe(
    grouped_reducescatter,
    lambda tensors, *others: [share_of(tensor, others[-1]) for tensor in tensors],
)
describe(grouped_reducescatter_gradient, _with_rows)


def _keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.arguments, ctx.rows = inputs[2:], [rows_of(tensor) for tensor in inputs[0]]


def _rows_of_gradients(ctx: Any, grads: Sequence[Any]) -> list[int]:
    return [rows for rows, grad in zip(ctx.rows, grads) if is_gradient(grad)]


def _allreduce_backward(ctx: Any, grads: Sequence[Any]) -> Any:
    reduced = each_gradient(lambda some: grouped_allreduce(some, None, *ctx.arguments), grads)
    return reduced, None, None, None, None, None


def _allgather_backward(ctx: Any, grads: Sequence[Any]) -> Any:
    rows, (process_set,) = _rows_of_gradients(ctx, grads), ctx.arguments
    own = each_gradient(lambda some: grouped_allgather_gradient(some, rows, process_set), grads)
    return own, None, None


def _reducescatter_backward(ctx: Any, grads: Sequence[Any]) -> Any:
    rows, process_set = _rows_of_gradients(ctx, grads), ctx.arguments[-1]
    factor = scatter_factor(*ctx.arguments)

    def gather(some: list[torch.Tensor]) -> list[torch.Tensor]:
        scaled = [grad * factor for grad in some]
        return grouped_reducescatter_gradient(scaled, rows, process_set)

    return each_gradient(gather, grads), None, None, None, None, None


differentiate(grouped_allreduce, _allreduce_backward, keep_arguments)
differentiate(grouped_allgather, _allgather_backward, _keep_rows)
differentiate(grouped_reducescatter, _reducescatter_backward, _keep_rows)
