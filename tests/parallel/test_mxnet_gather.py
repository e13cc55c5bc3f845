"""Allgather and alltoall with MXNet: ragged rows, groups, sets, refusals."""

from __future__ import annotations

import signal
import threading
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet.base import MXNetError
from mxnet_arrays import (
    DTYPES,
    SHAPES,
    array,
    assert_same,
    even_and_odd,
    everyones,
    mine,
    refused,
)

import horovod.mxnet as hvd


def test_allgather() -> None:
    for dtype in DTYPES:
        for shape in SHAPES:
            result = hvd.allgather(array(shape, dtype))
            assert np.dtype(result.dtype) == dtype
            assert_same(result, everyones(shape, dtype).reshape(-1, *shape[1:]))


def test_ragged_rows() -> None:
    for dtype in ("float32", "int64"):
        result = hvd.allgather(array((3 + hvd.rank(), 2), dtype))
        rows = [mine((3 + rank, 2), dtype, rank) for rank in range(hvd.size())]
        assert_same(result, np.concatenate(rows))


def test_groups() -> None:
    results = hvd.grouped_allgather([array((1 + hvd.rank(), 2)), array((4,), "int32")], name="g")
    rows = [mine((1 + rank, 2), "float32", rank) for rank in range(hvd.size())]
    assert_same(results[0], np.concatenate(rows))
    assert_same(results[1], everyones((4,), "int32").reshape(-1))
    empty: list[Any] = []
    assert hvd.grouped_allgather(empty) is empty


@pytest.mark.usefixtures("several_ranks")
def test_movements_on_process_sets() -> None:
    own = even_and_odd()[hvd.rank() % 2]
    everything = everyones((2 * own.size(), 2), ranks=own.ranks)
    tensor = array((2 * own.size(), 2))
    assert_same(hvd.allgather(tensor, process_set=own), everything.reshape(-1, 2))
    assert_same(hvd.grouped_allgather([tensor], process_set=own)[0], everything.reshape(-1, 2))
    first = 2 * own.rank()
    expected = everything[:, first : first + 2].reshape(-1, 2)
    assert_same(hvd.alltoall(tensor, process_set=own), expected)
    result, received = hvd.alltoall(tensor, splits=[2] * own.size(), process_set=own)
    assert_same(result, expected)
    assert received.asnumpy().tolist() == [2] * own.size()


@pytest.mark.usefixtures("several_ranks")
def test_allgather_of_ranks_that_disagree() -> None:
    rank = hvd.rank()
    with refused("dimension"):
        hvd.allgather(mx.nd.ones((2, 2 + rank)), name="dimension")
    with refused("type"):
        hvd.allgather(mx.nd.ones((2,), dtype="int32" if rank % 2 else "float32"), name="type")
    assert_same(hvd.allgather(array((3,))), everyones((3,)).reshape(-1))


def test_only_arrays() -> None:
    for operation in (hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with pytest.raises(AssertionError):
            operation(np.ones(3))
    with pytest.raises(AssertionError):
        hvd.grouped_allgather([np.ones(3)])


def test_alltoall_in_equal_parts() -> None:
    size = hvd.size()
    for dtype in DTYPES:
        result = hvd.alltoall(array((2 * size, 3), dtype))
        rows = everyones((2 * size, 3), dtype)[:, 2 * hvd.rank() : 2 * hvd.rank() + 2]
        assert_same(result, rows.reshape(-1, 3))


@pytest.mark.parametrize("kind", ["array", "list"])
def test_alltoall_with_splits(kind: str) -> None:
    # Rank r sends i + 1 rows to rank i, and its number in each of them.
    size, rank = hvd.size(), hvd.rank()
    splits: Any = [i + 1 for i in range(size)]
    tensor = mx.nd.full((sum(splits), 2), rank)
    if kind == "array":
        splits = mx.nd.array(splits, dtype="int32")
    result, received = hvd.alltoall(tensor, splits=splits)
    assert received.context == mx.cpu() and np.dtype(received.dtype) == "int32"
    assert received.asnumpy().tolist() == [rank + 1] * size
    expected = np.repeat(np.arange(size), rank + 1)
    assert_same(result, np.stack([expected, expected], axis=1))


@pytest.mark.usefixtures("several_ranks")
def test_alltoall_to_the_first_rank_only() -> None:
    size = hvd.size()
    result, received = hvd.alltoall(array((4, 2)), splits=[4] + [0] * (size - 1))
    if hvd.rank() == 0:
        assert_same(result, everyones((4, 2)).reshape(-1, 2))
    assert received.asnumpy().tolist() == [4 if hvd.rank() == 0 else 0] * size


@pytest.mark.usefixtures("several_ranks")
def test_alltoall_of_ranks_that_disagree() -> None:
    rank, size = hvd.rank(), hvd.size()
    with refused("type"):
        dtype = "int32" if rank % 2 else "float32"
        hvd.alltoall(mx.nd.ones((size,), dtype=dtype), name="type")
    with refused("dimension"):
        hvd.alltoall(mx.nd.ones((size, 2 + rank)), name="dimension")


def test_alltoall_of_splits_that_do_not_fit() -> None:
    size = hvd.size()
    with refused("sum up to"):
        hvd.alltoall(mx.nd.ones((size,)), splits=[2] * size)
    with refused("splits were given"):
        hvd.alltoall(mx.nd.ones((size,)), splits=[1] * (size + 1))
    with pytest.raises((MXNetError, ValueError)):
        hvd.alltoall(mx.nd.ones((size,)), splits=mx.nd.ones((size,), dtype="float32"))


@pytest.mark.usefixtures("several_ranks")
def test_a_waiting_call_can_be_interrupted() -> None:
    """Rank 0 waits for the others, is interrupted, and takes part in the next operation."""
    if hvd.rank() == 0:
        thread = threading.main_thread().ident
        assert thread is not None
        timer = threading.Timer(0.3, lambda: signal.pthread_kill(thread, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            hvd.allgather(array((3,)), name="interrupted")
    hvd.broadcast_object(None, name="after")
    if hvd.rank() != 0:
        assert_same(hvd.allgather(array((3,)), name="interrupted"), everyones((3,)).reshape(-1))
    assert_same(hvd.allgather(array((3,))), everyones((3,)).reshape(-1))
