"""Where a rank stands, barrier and join, with TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import Run, assert_same, everyones, mine, run

import horovod.tensorflow as hvd

__all__ = ["run"]


def test_rank_and_size(run: Run) -> None:
    ops = [hvd.rank_op, hvd.size_op, hvd.local_rank_op, hvd.local_size_op]
    results = run(lambda: [op() for op in ops] + [hvd.process_set_included_op()])
    expected = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), 1]
    assert [int(result) for result in results] == expected
    assert all(result.dtype == np.int32 and result.shape == () for result in results)


def test_ops_tell_what_holds_when_they_run() -> None:
    """Not what held when the function was traced."""
    size = tf.function(hvd.size_op)
    before = int(size())
    hvd.shutdown()
    with pytest.raises(tf.errors.FailedPreconditionError, match="initialized"):
        size()
    with pytest.raises(tf.errors.FailedPreconditionError, match="initialized"):
        hvd.allreduce(tf.constant(1.0))
    hvd.init()
    assert int(size()) == before


def test_functions_survive_a_new_job() -> None:
    reduce = tf.function(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum))
    for _ in range(2):
        assert_same(reduce(tf.constant(mine((3,)))), everyones((3,)).sum(axis=0))
        hvd.shutdown()
        hvd.init()


def test_barrier(run: Run) -> None:
    def meet() -> Any:
        hvd.allreduce(tf.constant([1.0]), name="before")
        return hvd.barrier()

    for _ in range(3):
        run(meet)


def test_join() -> None:
    """Rank 0 has less data: it takes part with zeros in what the others still reduce."""
    steps = 2 if hvd.rank() == 0 else 5
    for step in range(steps):
        total = hvd.allreduce(tf.constant(mine((4,))), op=hvd.Sum, name="gradient")
        ranks = range(hvd.size()) if step < 2 else range(1, hvd.size())
        assert_same(total, everyones((4,), ranks=ranks).sum(axis=0))
    last = int(hvd.join())
    assert last != 0 or hvd.size() == 1
    assert hvd.allgather_object(last) == [last] * hvd.size()


def test_join_in_a_function_comes_after_what_stands_before() -> None:
    @tf.function
    def finish() -> Any:
        totals = [hvd.allreduce(tf.ones([n + 1]), op=hvd.Sum, name=f"n{n}") for n in range(20)]
        return hvd.join(), totals

    last, totals = finish()
    assert 0 <= int(last) < hvd.size()
    for total in totals:
        assert_same(total, np.full(total.shape, hvd.size()))


def test_counters_show_the_plan_of_equal_steps() -> None:
    """Steps that are always the same need no negotiation, as with other frameworks."""
    if hvd.size() == 1:
        pytest.skip("no other rank to negotiate with")

    @tf.function
    def step(tensors: Any) -> Any:
        return [hvd.allreduce(tensor, name=f"t{n}") for n, tensor in enumerate(tensors)]

    tensors = [tf.ones([100]) for _ in range(5)]
    for _ in range(30):
        step(tensors)
    assert hvd.counters()["scheduled_operations"] > 0
