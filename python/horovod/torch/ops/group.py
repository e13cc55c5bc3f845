"""What operations on groups have in common: compression, results, and gradients.

Tensors of a group start together and end together. They may have different types and shapes;
results are lists in the same order. Tensors of integers may be in a group; they have no gradient
and are left out of the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from horovod.common.collectives import Output
from horovod.common.grouped import tensor_list
from horovod.common.handles import Finish
from horovod.torch.compression import Compressor
from horovod.torch.operators import like
from horovod.torch.ops.allgather import rows_of
from horovod.torch.tensors import from_output


def compress(
    compression: type[Compressor], tensors: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[Any]]:
    """Compresses each tensor of a group; also returns what `decompress` needs."""
    pairs = [compression.compress(tensor) for tensor in tensor_list(tensors)]
    return [compressed for compressed, _ in pairs], [ctx for _, ctx in pairs]


def decompress(
    compression: type[Compressor], tensors: Sequence[torch.Tensor], contexts: list[Any]
) -> list[torch.Tensor]:
    """Undoes `compress`."""
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(tensors, contexts)]


def returning(tensor: torch.Tensor) -> Finish:
    """What ends an operation whose result is in a tensor."""
    return lambda _: tensor


def converting(dtype: torch.dtype) -> Finish:
    """What ends an operation whose result the engine has allocated."""

    def finish(output: Output) -> torch.Tensor:
        return from_output(output, dtype)

    return finish


def contiguous(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Each tensor of a group, copied if it is not contiguous."""
    return [tensor.contiguous() for tensor in tensors]


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


def rows_of_gradients(ctx: Any, grads: Sequence[Any]) -> list[int]:
    """The rows of the inputs that have gradients, of those that `keep_rows` has kept."""
    return [rows for rows, grad in zip(ctx.rows, grads) if is_gradient(grad)]


def keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps the arguments after tensors and name, and each tensor's rows, for the gradient."""
    ctx.arguments, ctx.rows = inputs[2:], [rows_of(tensor) for tensor in inputs[0]]


def with_rows(grads: Sequence[torch.Tensor], rows: Sequence[Any], _: int) -> list[torch.Tensor]:
    """Describes gradients with other numbers of rows."""
    return [like(grad, n) for grad, n in zip(grads, rows)]
