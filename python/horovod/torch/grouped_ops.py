"""The collectives on groups of PyTorch tensors, which start together and end together.

The tensors of a group may have different types and shapes. Results are lists in the same order;
they are differentiable except in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from horovod.common.grouped import tensor_list
from horovod.common.handles import synchronize
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average, handle_average_backwards_compatibility
from horovod.torch import dispatch
from horovod.torch.compression import Compression, Compressor
from horovod.torch.grouped_async_ops import grouped_allreduce_async_


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
    compressed, contexts = _compress(compression, tensors)
    scaling = (prescale_factor, postscale_factor)
    reduced = dispatch.grouped_allreduce(compressed, name, op, scaling, process_set)
    return _decompress(compression, reduced, contexts)


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


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Concatenates each tensor of the group over all ranks; only first dimensions may differ."""
    return list(dispatch.grouped_allgather(tensor_list(tensors), name, process_set))


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
    compressed, contexts = _compress(compression, tensors)
    scaling = (prescale_factor, postscale_factor)
    reduced = dispatch.grouped_reducescatter(compressed, name, op, scaling, process_set)
    return _decompress(compression, reduced, contexts)


def _compress(
    compression: type[Compressor], tensors: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[Any]]:
    pairs = [compression.compress(tensor) for tensor in tensor_list(tensors)]
    return [compressed for compressed, _ in pairs], [ctx for _, ctx in pairs]


def _decompress(
    compression: type[Compressor], tensors: Sequence[torch.Tensor], contexts: list[Any]
) -> list[torch.Tensor]:
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(tensors, contexts)]
