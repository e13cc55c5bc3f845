"""Reducescatter with TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import (
    SCATTERED,
    Run,
    assert_same,
    everyones,
    gradient_of,
    mine,
    run,
    share,
)

import horovod.tensorflow as hvd

__all__ = ["run"]

UNSCATTERABLE = (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError, ValueError)


@pytest.mark.parametrize("rows", [8, 7, 1], ids=str)
def test_sum(run: Run, rows: int) -> None:
    for dtype in SCATTERED:
        result = run(lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum), mine((rows, 3), dtype))
        assert_same(result, everyones((rows, 3), dtype).sum(axis=0)[share(rows)])


def test_average_and_scaling(run: Run) -> None:
    total = everyones((8, 2)).sum(axis=0)[share(8)]
    assert_same(run(hvd.reducescatter, mine((8, 2))), total / hvd.size(), 1e-6)
    scaled = run(
        lambda tensor: hvd.reducescatter(
            tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0
        ),
        mine((8, 2)),
    )
    assert_same(scaled, total * 2)


def test_many_at_once() -> None:
    @tf.function
    def scatter_all() -> Any:
        return [
            hvd.reducescatter(tf.constant(mine((n + 1, 2))), op=hvd.Sum, name=f"n{n}")
            for n in range(60)
        ]

    for number, result in enumerate(scatter_all()):
        rows = number + 1
        assert_same(result, everyones((rows, 2)).sum(axis=0)[share(rows)])


def test_groups(run: Run) -> None:
    arrays = [mine((8, 2)), mine((5,)), mine((4, 1), "int64")]
    results = run(lambda *tensors: hvd.grouped_reducescatter(tensors, op=hvd.Sum), *arrays)
    for array, result in zip(arrays, results):
        total = everyones(array.shape, str(array.dtype)).sum(axis=0)
        assert_same(result, total[share(len(array))])


@pytest.mark.parametrize(("op", "factor"), [(hvd.Sum, None), (hvd.Average, 1)])
def test_gradients(op: int, factor: int | None) -> None:
    factor = hvd.size() if factor is None else factor

    def scatter(tensor: Any) -> Any:
        return hvd.reducescatter(tensor, op=op)

    for function in (scatter, tf.function(scatter)):
        (gradient,) = gradient_of(function, mine((7, 2)))
        assert_same(gradient, np.full((7, 2), factor), 1e-6)
    for gradient in gradient_of(
        lambda *tensors: hvd.grouped_reducescatter(tensors, op=op), mine((4,)), mine((3, 2))
    ):
        assert_same(gradient, np.full(gradient.shape, factor), 1e-6)


def test_scalars_have_no_rows() -> None:
    for refuse in (
        lambda: hvd.reducescatter(tf.constant(1.0)),
        lambda: hvd.grouped_reducescatter([tf.constant([1.0]), tf.constant(1.0)]),
        lambda: tf.function(lambda: hvd.reducescatter(tf.constant(1.0)))(),
    ):
        with pytest.raises(UNSCATTERABLE):
            refuse()


@pytest.mark.usefixtures("several_ranks")
def test_ranks_that_disagree(run: Run) -> None:
    rank = hvd.rank()
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(hvd.reducescatter, mine((4 + rank,)))
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(hvd.reducescatter, mine((4,), "int32" if rank else "float32"))


def test_other_reductions_are_refused() -> None:
    with pytest.raises(tf.errors.AbortedError, match="Sum and Average only"):
        hvd.reducescatter(tf.ones([4]), op=hvd.Max)
