"""Parameters, optimizer state and Python objects between ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from horovod.common import collectives
from horovod.common.objects import allgather_object, broadcast_object
from horovod.torch.mpi_ops import (
    ProcessSet,
    allgather,
    broadcast_,
    broadcast_async_,
    global_process_set,
    rank,
    size,
    synchronize,
)

__all__ = [
    "ProcessSet",
    "allgather",
    "allgather_object",
    "broadcast_",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "global_process_set",
    "rank",
    "size",
    "synchronize",
]


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Overwrites tensors with the root's, usually `model.state_dict()` before the first step.

    Takes a dict, or a list of tensors or of (name, tensor) pairs such as `named_parameters()`.
    """
    handles = [broadcast_async_(tensor, root_rank, name) for name, tensor in _named(params)]
    for handle in handles:
        synchronize(handle)


def _named(params: Any) -> list[tuple[str | None, torch.Tensor]]:
    if isinstance(params, Mapping):
        return sorted(params.items())
    if isinstance(params, (list, tuple)) or hasattr(params, "__next__"):
        return [item if isinstance(item, tuple) else (None, item) for item in params]
    raise ValueError(
        "expected a dict, or a list of tensors or (name, tensor) pairs, "
        f"not {type(params).__name__}"
    )


class _Placeholder(NamedTuple):
    """Stands for a tensor of the state while the rest of it travels as a pickle."""

    dtype: torch.dtype
    shape: tuple[int, ...]


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Makes every rank's optimizer equal to the root's: options, counters and tensors.

    The root describes its state to the others, so a rank whose optimizer has not run yet needs
    no step to create it. Parameters of such an optimizer that have no gradient yet get one of
    zeros, sparse where `model` says so.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("the state of LBFGS cannot be broadcast")
    if not optimizer.state:
        _add_zero_gradients(optimizer, model)
    tensors: list[torch.Tensor] = []
    is_root = collectives.is_root(root_rank)
    outline = _take_tensors(optimizer.state_dict(), tensors) if is_root else None
    outline = broadcast_object(outline, root_rank, "optimizer_state")
    if not is_root:
        outline = _put_tensors(outline, tensors)
    broadcast_parameters(
        [(f"optimizer_state.{index}", tensor) for index, tensor in enumerate(tensors)], root_rank
    )
    if not is_root:
        optimizer.load_state_dict(outline)


def _add_zero_gradients(optimizer: torch.optim.Optimizer, model: torch.nn.Module | None) -> None:
    """Upstream leaves them behind, and programs look at `.grad` before the first step."""
    modules = [] if model is None else model.modules()
    embeddings = [m for m in modules if isinstance(m, torch.nn.Embedding) and m.sparse]
    sparse = {parameter for embedding in embeddings for parameter in embedding.parameters()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                zeros = torch.zeros_like(parameter)
                is_sparse = parameter in sparse or isinstance(optimizer, torch.optim.SparseAdam)
                parameter.grad = zeros.to_sparse() if is_sparse else zeros


def _take_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Copies nested containers with each tensor moved to the list and replaced."""
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach().contiguous())
        return _Placeholder(value.dtype, tuple(value.shape))
    if type(value) is dict:
        return {key: _take_tensors(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_take_tensors(item, tensors) for item in value)
    return value


def _put_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Undoes `_take_tensors`, with empty tensors that are also appended to the list."""
    if isinstance(value, _Placeholder):
        tensors.append(torch.empty(value.shape, dtype=value.dtype))
        return tensors[-1]
    if type(value) is dict:
        return {key: _put_tensors(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_put_tensors(item, tensors) for item in value)
    return value
