"""What MXNet's tests compute with: small whole numbers that depend on the rank alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet.base import MXNetError

import horovod.mxnet as hvd

INTEGERS = ["uint8", "int8", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = [*INTEGERS, *FLOATS]
SHAPES = [(17,), (17, 3), (5, 4, 3)]


def mine(shape: tuple[int, ...], dtype: str = "float32", rank: int | None = None) -> np.ndarray:
    """What a rank contributes."""
    rank = hvd.rank() if rank is None else rank
    low = 0 if dtype == "uint8" else -3
    return np.random.default_rng([rank, *shape]).integers(low, 4, shape).astype(dtype)


def array(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """What this rank contributes, as an array of MXNet."""
    return mx.nd.array(mine(shape, dtype), dtype=dtype)


def everyones(
    shape: tuple[int, ...], dtype: str = "float32", ranks: Iterable[int] | None = None
) -> np.ndarray:
    """What ranks contribute, by rank, as numbers to compute with."""
    ranks = range(hvd.size()) if ranks is None else ranks
    return np.stack([mine(shape, dtype, rank) for rank in ranks]).astype("float64")


def assert_same(result: Any, expected: Any, tolerance: float = 0.0) -> None:
    result, expected = result.asnumpy().astype("float64"), np.asarray(expected, "float64")
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def share(rows: int, rank: int | None = None, size: int | None = None) -> slice:
    """The rows that a rank gets from a reducescatter."""
    rank = hvd.rank() if rank is None else rank
    shortest, longer = divmod(rows, hvd.size() if size is None else size)
    start = rank * shortest + min(rank, longer)
    return slice(start, start + shortest + (rank < longer))


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Expects the error of an operation that failed, where its result is waited for."""
    with pytest.raises((MXNetError, RuntimeError), match=words):
        yield


def even_and_odd() -> list[Any]:
    """Process sets of even and of odd ranks, given to init."""
    size = hvd.size()
    hvd.shutdown()
    sets = [hvd.ProcessSet(range(first, size, 2)) for first in (0, 1)]
    hvd.init(process_sets=sets)
    return sets
