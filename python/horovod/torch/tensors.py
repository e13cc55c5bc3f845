"""Tensors as the engine sees them, and the engine's results as tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from horovod.common import collectives
from horovod.common.collectives import Output
from horovod.common.handles import View
from horovod.common.util import Average, Sum

_codes: dict[torch.dtype, int] = {}

start_in_place = collectives.InPlace(
    [torch.Tensor, torch.nn.Parameter], torch.Tensor.is_neg
).allreduce
"""Starts an allreduce of an ordinary dense tensor; None leaves it to the rest of this file."""


def view(tensor: torch.Tensor) -> View:
    """Describes the memory of a tensor, or says why the engine cannot use it.

    The engine knows no complex numbers; it sees one as two real numbers, in one more dimension.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ValueError(f"type not supported: a tensor with layout {tensor.layout}")
    if not tensor.is_cpu:
        raise NotImplementedError(
            f"a tensor on device {tensor.device} cannot be used: this version works on CPU "
            "and CUDA tensors; move it with tensor.cpu()"
        )
    if not tensor.is_contiguous():
        raise ValueError("tensor is required to be contiguous; use tensor.contiguous()")
    if tensor.is_neg() or tensor.is_conj():
        raise ValueError(
            "the tensor's memory holds its conjugate or negative; use tensor.resolve_conj() and "
            "tensor.resolve_neg()"
        )
    if tensor.is_complex():
        parts = torch.view_as_real(tensor.detach())
        return View(tensor.data_ptr(), _dtype_code(parts.dtype), parts.shape, tensor)
    return plain_view(tensor)


def plain_view(tensor: torch.Tensor) -> View:
    """Describes the memory of a tensor that is known to be usable as it is."""
    return View(tensor.data_ptr(), _dtype_code(tensor.dtype), tensor.shape, tensor)


def rows_view(tensor: torch.Tensor) -> View:
    """Describes a tensor whose rows are gathered or shared out, which a complex scalar has not."""
    described = view(tensor)
    if tensor.dim() == 0 and tensor.is_complex():
        raise ValueError("a complex scalar has no rows; use tensor.reshape(1)")
    return described


def reducible_view(tensor: torch.Tensor, op: int) -> View:
    """Describes a tensor that is reduced: complex numbers can only be added up."""
    described = view(tensor)
    if op not in (Average, Sum) and tensor.is_complex():
        raise ValueError("complex tensors can only be combined with op=Average or op=Sum")
    return described


def _dtype_code(dtype: torch.dtype) -> int:
    """The engine's number of a type; finding the name of one takes longer than all the rest."""
    code = _codes.get(dtype)
    if code is None:
        code = _codes[dtype] = collectives.dtype_code(str(dtype).removeprefix("torch."))
    return code


def from_output(output: Output, dtype: torch.dtype) -> torch.Tensor:
    """A tensor over the memory that the engine allocated, without a copy."""
    shape = output.shape[:-1] if dtype.is_complex else output.shape
    if output.nbytes == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(collectives.output_buffer(output), dtype=dtype).reshape(shape)


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
