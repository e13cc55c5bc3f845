"""Process sets with TensorFlow: every operation among some of the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import Run, assert_same, everyones, gradient_of, mine, run, share

import horovod.tensorflow as hvd

__all__ = ["run"]

v1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("several_ranks")


@pytest.fixture
def sets() -> Any:
    """Even and odd ranks, given to init."""
    size = hvd.size()
    hvd.shutdown()
    sets = [hvd.ProcessSet(range(first, size, 2)) for first in (0, 1)]
    hvd.init(process_sets=sets)
    return sets


def test_reductions(run: Run, sets: Any) -> None:
    own = sets[hvd.rank() % 2]
    total = everyones((8, 2), ranks=own.ranks).sum(axis=0)
    summed, grouped, part = run(
        lambda tensor: [
            hvd.allreduce(tensor, op=hvd.Sum, process_set=own),
            hvd.grouped_allreduce([tensor], op=hvd.Sum, process_set=own)[0],
            hvd.reducescatter(tensor, op=hvd.Sum, process_set=own),
        ],
        mine((8, 2)),
    )
    assert_same(summed, total)
    assert_same(grouped, total)
    assert_same(part, total[share(8, own.rank(), own.size())])
    average = run(lambda tensor: hvd.allreduce(tensor, process_set=own), mine((8, 2)))
    assert_same(average, total / own.size(), 1e-6)


def test_movements(run: Run, sets: Any) -> None:
    own = sets[hvd.rank() % 2]
    rows = 2 * len(own.ranks)
    everything = everyones((rows, 2), ranks=own.ranks)
    gathered, grouped, spread, received = run(
        lambda tensor: [
            hvd.allgather(tensor, process_set=own),
            hvd.grouped_allgather([tensor], process_set=own)[0],
            hvd.broadcast(tensor, own.ranks[-1], process_set=own),
            hvd.alltoall(tensor, process_set=own),
        ],
        mine((rows, 2)),
    )
    assert_same(gathered, everything.reshape(-1, 2))
    assert_same(grouped, everything.reshape(-1, 2))
    assert_same(spread, everything[-1])
    first = 2 * own.rank()
    assert_same(received, everything[:, first : first + 2].reshape(-1, 2))


def test_sparse_tensors(sets: Any) -> None:
    own = sets[hvd.rank() % 2]
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([hvd.rank()]))
    reduced = hvd.allreduce(slices, process_set=own)
    assert_same(reduced.indices, own.ranks)
    assert_same(reduced.values, np.full((own.size(), 2), 1 / own.size()), 1e-6)


def test_gradients(sets: Any) -> None:
    own = sets[hvd.rank() % 2]
    rows = 2 * own.size()
    for factor, function in [
        (own.size(), lambda t: hvd.allreduce(t, op=hvd.Sum, process_set=own)),
        (1, lambda t: hvd.allgather(t, process_set=own)),
        (own.size(), lambda t: hvd.reducescatter(t, op=hvd.Sum, process_set=own)),
        (1, lambda t: hvd.alltoall(t, process_set=own)),
        (own.rank() == 0, lambda t: hvd.broadcast(t, own.ranks[0], process_set=own)),
    ]:
        (gradient,) = gradient_of(function, mine((rows, 2)))
        assert_same(gradient, np.full((rows, 2), factor), 1e-6)


def test_where_a_rank_stands(run: Run, sets: Any) -> None:
    even, odd = sets
    answers = run(
        lambda: [
            hvd.size_op(even.process_set_id),
            hvd.size_op(odd.process_set_id),
            hvd.process_set_included_op(even.process_set_id),
        ]
    )
    assert [int(n) for n in answers] == [even.size(), odd.size(), int(hvd.rank() % 2 == 0)]


def test_variables_and_objects(sets: Any) -> None:
    own = sets[hvd.rank() % 2]
    variable = tf.Variable(mine((3,)))
    hvd.broadcast_variables([variable], own.ranks[-1], process_set=own)
    assert_same(variable, mine((3,), rank=own.ranks[-1]))
    assert hvd.broadcast_object(hvd.rank(), own.ranks[0], process_set=own) == own.ranks[0]
    assert hvd.allgather_object(hvd.rank(), process_set=own) == own.ranks
    hvd.barrier(process_set=own)


def test_tape(sets: Any) -> None:
    """Members have the average; others, for whom it is nothing, their own."""
    even = sets[0]
    variable = tf.Variable([1.0, 1.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable * float(hvd.rank()))
    tape = hvd.DistributedGradientTape(tape, process_set=even)
    expected = np.mean(even.ranks) if even.included() else hvd.rank()
    assert_same(tape.gradient(loss, [variable])[0], [expected, expected], 1e-6)


def test_legacy_optimizer(sets: Any) -> None:
    even = sets[0]
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=[0.0])
        optimizer = hvd.DistributedOptimizer(
            v1.train.GradientDescentOptimizer(1.0), process_set=even
        )
        step = optimizer.minimize(tf.reduce_sum(variable * float(hvd.rank())))
        session.run(v1.global_variables_initializer())
        session.run(step)
        expected = np.mean(even.ranks) if even.included() else hvd.rank()
        assert_same(session.run(variable), [-expected], 1e-6)


def test_only_members_may_call(run: Run, sets: Any) -> None:
    foreign = sets[(hvd.rank() + 1) % 2]
    for operation in (
        lambda t: hvd.allreduce(t, process_set=foreign),
        lambda t: hvd.allgather(t, process_set=foreign),
        lambda t: hvd.reducescatter(t, process_set=foreign),
        lambda t: hvd.alltoall(t, process_set=foreign),
        lambda t: hvd.broadcast(t, foreign.ranks[0], process_set=foreign),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="only its members may call"):
            run(operation, mine((4,)))


def test_sets_that_do_not_exist() -> None:
    forged = hvd.ProcessSet([0])
    with pytest.raises(ValueError, match="must be registered"):
        hvd.allreduce(tf.constant(1.0), process_set=forged)
    forged.process_set_id = 10
    with pytest.raises(ValueError, match="process set 10 does not exist"):
        hvd.allreduce(tf.constant(1.0), process_set=forged)


def test_a_set_given_twice_is_refused() -> None:
    hvd.shutdown()
    with pytest.raises(ValueError, match="same ranks"):
        hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])


@pytest.mark.dynamic_process_sets
def test_sets_that_come_and_go() -> None:
    own = [hvd.add_process_set(range(first, hvd.size(), 2)) for first in (0, 1)][hvd.rank() % 2]
    reduce = tf.function(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, process_set=own))
    assert_same(reduce(tf.constant(mine((3,)))), everyones((3,), ranks=own.ranks).sum(axis=0))
    with pytest.raises(ValueError):
        hvd.add_process_set(own.ranks)
    hvd.barrier()
    for first in (0, 1):
        stale = hvd.ProcessSet(range(first, hvd.size(), 2))
        stale.process_set_id = first + 1
        assert hvd.remove_process_set(stale)
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not exist"):
        reduce(tf.constant(mine((3,))))
