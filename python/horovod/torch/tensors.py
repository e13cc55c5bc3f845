"""Tensors as the engine sees them, and the engine's results as tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from horovod.common import collectives
from horovod.common.collectives import Output
from horovod.common.handles import View

_codes: dict[torch.dtype, int] = {}


def view(tensor: torch.Tensor) -> View:
    """Describes the memory of a tensor, or says why the engine cannot use it."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ValueError(f"type not supported: a tensor with layout {tensor.layout}")
    if not tensor.is_cpu:
        raise NotImplementedError(
            f"a tensor on device {tensor.device} cannot be used: this version works on CPU "
            "tensors only; move it with tensor.cpu()"
        )
    if not tensor.is_contiguous():
        raise ValueError("tensor is required to be contiguous; use tensor.contiguous()")
    return View(tensor.data_ptr(), _dtype_code(tensor.dtype), tensor.shape, tensor)


def _dtype_code(dtype: torch.dtype) -> int:
    """The engine's number of a type; finding the name of one takes longer than all the rest."""
    code = _codes.get(dtype)
    if code is None:
        code = _codes[dtype] = collectives.dtype_code(str(dtype).removeprefix("torch."))
    return code


def from_output(output: Output, dtype: torch.dtype) -> torch.Tensor:
    """A tensor over the memory that the engine allocated, without a copy."""
    if output.nbytes == 0:
        return torch.empty(output.shape, dtype=dtype)
    return torch.frombuffer(collectives.output_buffer(output), dtype=dtype).reshape(output.shape)


def splits_list(splits: torch.Tensor | Sequence[int] | None) -> list[int]:
    """Alltoall splits as the engine wants them; no splits stand for equal parts."""
    if splits is None:
        return []
    if not isinstance(splits, torch.Tensor):
        return collectives.check_splits(splits)
    if splits.dim() != 1:
        raise ValueError(f"splits must have one dimension, not {splits.dim()}")
    if splits.dtype != torch.int32:
        raise ValueError(f"splits must be int32, not {splits.dtype}")
    return collectives.check_splits(splits.tolist())
