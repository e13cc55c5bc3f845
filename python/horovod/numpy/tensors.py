"""Arrays as the engine sees them, and the engine's results as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from horovod.common import collectives
from horovod.common.collectives import Output
from horovod.common.handles import View

Array = npt.NDArray[Any]


def view(array: Array) -> View:
    """Describes the memory of a contiguous array, or says why the engine cannot use it."""
    if not array.dtype.isnative:
        raise ValueError(f"type not supported: {array.dtype.str} (foreign byte order)")
    return View(array.ctypes.data, collectives.dtype_code(array.dtype.name), array.shape, array)


def writable_view(array: Array) -> View:
    """A view for results that go into the caller's array, which therefore cannot be copied."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"an in-place operation needs an array, not {type(array).__name__}")
    if not array.flags.c_contiguous:
        raise ValueError("an in-place operation needs a contiguous array")
    if not array.flags.writeable:
        raise ValueError("an in-place operation needs an array that is not read-only")
    return view(array)


def from_output(output: Output, dtype: np.dtype[Any]) -> Array:
    """An array over the memory that the engine allocated, without a copy."""
    if output.nbytes == 0:
        return np.empty(output.shape, dtype)
    return np.frombuffer(collectives.output_buffer(output), dtype).reshape(output.shape)


def splits_list(splits: npt.ArrayLike | Sequence[int] | None) -> list[int]:
    """Alltoall splits as the engine wants them; no splits stand for equal parts."""
    if splits is None:
        return []
    array = np.asarray(splits)
    if array.ndim != 1:
        raise ValueError(f"splits must have one dimension, not {array.ndim}")
    if array.size > 0 and array.dtype.kind not in "iu":
        raise ValueError(f"splits must be integers, not {array.dtype}")
    return collectives.check_splits(array)
