"""Allgather and alltoall with TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import MOVED, Run, assert_same, gradient_of, mine, run, typed

import horovod.tensorflow as hvd

__all__ = ["run"]


def gathered(dtype: str, rows: Any, width: int = 3) -> np.ndarray:
    parts = [mine((rows(rank), width), dtype, rank) for rank in range(hvd.size())]
    return np.concatenate(parts).astype("float64")


@pytest.mark.parametrize("rows", [lambda rank: 4, lambda rank: 2 * rank], ids=["equal", "ragged"])
def test_allgather(run: Run, rows: Any) -> None:
    for dtype in MOVED:
        result = run(hvd.allgather, mine((rows(hvd.rank()), 3), dtype))
        assert_same(result, gathered(dtype, rows))


def test_rows_without_elements_keep_their_number(run: Run) -> None:
    result = run(hvd.allgather, np.zeros((hvd.rank() + 1, 0), "float32"))
    assert result.shape == (sum(range(1, hvd.size() + 1)), 0)


def test_many_at_once() -> None:
    @tf.function
    def gather_all() -> Any:
        return [
            hvd.allgather(tf.constant(mine((hvd.rank() + n, 2))), name=f"n{n}") for n in range(60)
        ]

    for number, result in enumerate(gather_all()):
        assert_same(result, gathered("float32", lambda rank, n=number: rank + n, 2))


def test_grouped_allgather(run: Run) -> None:
    for dtype in ("float32", "bool", "int16"):
        results = run(
            lambda *tensors: hvd.grouped_allgather(tensors),
            *(mine((hvd.rank() + 1, width), dtype) for width in (1, 3)),
        )
        for width, result in zip((1, 3), results):
            assert_same(result, gathered(dtype, lambda rank: rank + 1, width))
    assert hvd.grouped_allgather([]) == []


def test_static_shapes() -> None:
    """All is known but the number of rows."""

    @tf.function
    def look(tensor: Any) -> Any:
        assert hvd.allgather(tensor).shape.as_list() == [None, 3]
        assert [part.shape.as_list() for part in hvd.grouped_allgather([tensor, tensor])] == [
            [None, 3],
            [None, 3],
        ]
        rows, received = hvd.alltoall(tensor, splits=[1] * hvd.size())
        assert rows.shape.as_list() == [None, 3] and received.shape.as_list() == [None]
        assert hvd.allreduce(tensor).shape.as_list() == [hvd.size(), 3]
        assert hvd.broadcast(tensor, 0).shape.as_list() == [hvd.size(), 3]
        assert hvd.reducescatter(tensor).shape.as_list() == [None, 3]
        return hvd.size_op()

    assert look(tf.zeros([hvd.size(), 3])).numpy() == hvd.size()


def test_gradients_of_ragged_tensors() -> None:
    """The gradient of slice r is r on every rank, so its average is r."""

    def weighted(tensor: Any) -> Any:
        whole = hvd.allgather(tensor)
        factors = np.concatenate([np.full((rank + 1, 1), rank) for rank in range(hvd.size())])
        return whole * tf.constant(factors, tf.float32)

    for function in (weighted, tf.function(weighted)):
        (gradient,) = gradient_of(function, mine((hvd.rank() + 1, 2)))
        assert_same(gradient, np.full((hvd.rank() + 1, 2), hvd.rank()), 1e-6)


def test_gradients_of_groups() -> None:
    gradients = gradient_of(lambda *t: hvd.grouped_allgather(t), mine((2, 2)), mine((3,)))
    for gradient in gradients:
        assert_same(gradient, np.ones(gradient.shape))


@pytest.mark.usefixtures("several_ranks")
def test_allgather_of_ranks_that_disagree(run: Run) -> None:
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(hvd.allgather, mine((2, 2 + hvd.rank())))
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(hvd.allgather, mine((2,), "int32" if hvd.rank() % 2 else "float32"))


def sent(rank: int, splits: list[int], dtype: str = "float32") -> np.ndarray:
    """Rows that say who sends them to whom."""
    rows = [[rank, to] for to, count in enumerate(splits) for _ in range(count)]
    return typed(np.array(rows).reshape(-1, 2), dtype)


def splits_of(rank: int, kind: str) -> list[int]:
    size = hvd.size()
    return {
        "growing": [rank + 1] * size,
        "empty": [0] * size,
        "one sends nothing": [0 if rank == 1 % size else 2] * size,
        "one receives nothing": [0 if to == 1 % size else 2 for to in range(size)],
    }[kind]


@pytest.mark.parametrize("kind", ["growing", "empty", "one sends nothing", "one receives nothing"])
def test_alltoall_with_splits(run: Run, kind: str) -> None:
    ranks, me = range(hvd.size()), hvd.rank()
    for dtype in MOVED:
        splits = splits_of(me, kind)
        rows, received = run(
            lambda tensor, splits=splits: hvd.alltoall(tensor, splits=splits),
            sent(me, splits, dtype),
        )
        counts = [splits_of(rank, kind)[me] for rank in ranks]
        expected = [[rank, me] for rank in ranks for _ in range(counts[rank])]
        assert_same(received, counts)
        assert_same(rows, typed(np.array(expected).reshape(-1, 2), dtype))


def test_alltoall_in_equal_parts(run: Run) -> None:
    rows = run(hvd.alltoall, sent(hvd.rank(), [2] * hvd.size()))
    assert_same(rows, [[rank, hvd.rank()] for rank in range(hvd.size()) for _ in range(2)])


def test_alltoall_gradients() -> None:
    splits = [hvd.rank() + 1] * hvd.size()

    def send(tensor: Any) -> Any:
        return hvd.alltoall(tensor, splits=splits)[0] * (hvd.rank() + 1.0)

    for function in (send, tf.function(send)):
        (gradient,) = gradient_of(function, sent(hvd.rank(), splits))
        to = np.repeat(range(hvd.size()), hvd.rank() + 1)
        assert_same(gradient, np.stack([to + 1, to + 1], axis=1))
    (equal,) = gradient_of(hvd.alltoall, sent(hvd.rank(), [1] * hvd.size()))
    assert_same(equal, np.ones((hvd.size(), 2)))


@pytest.mark.usefixtures("several_ranks")
def test_alltoall_of_ranks_that_disagree(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(hvd.alltoall, mine((size,), "int32" if rank % 2 else "float32"))
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(hvd.alltoall, mine((size, 2 + rank)))


@pytest.mark.usefixtures("several_ranks")
def test_alltoall_of_rows_that_cannot_be_split(run: Run) -> None:
    size = hvd.size()
    with pytest.raises(tf.errors.InvalidArgumentError, match="not divisible"):
        run(hvd.alltoall, mine((size + 1,)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="only"):
        run(lambda tensor: hvd.alltoall(tensor, splits=[2] * size), mine((size,)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1 rows"):
        run(lambda tensor: hvd.alltoall(tensor, splits=[-1] * size), mine((size,)))
