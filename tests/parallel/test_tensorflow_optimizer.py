"""Optimizers of `tf.compat.v1.train` around gradients of all ranks, and batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import assert_same

import horovod.tensorflow as hvd
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager

v1 = tf.compat.v1


def mean_rank() -> float:
    """The average of 1 + rank."""
    return 1 + (hvd.size() - 1) / 2


def train(steps: int, optimizer: Any, **options: Any) -> Any:
    """Values of the variables and the global step after each step, with gradients 1 + rank."""
    history = []
    with tf.Graph().as_default(), v1.Session() as session:
        plain = v1.get_variable("plain", initializer=[0.0, 0.0], use_resource=True)
        table = v1.get_variable("table", initializer=np.zeros((2, 1), "float32"))
        loss = tf.reduce_sum(plain * (1.0 + hvd.rank()))
        loss += tf.reduce_sum(tf.gather(table, [0]))
        step = v1.train.get_or_create_global_step()
        wrapped = hvd.DistributedOptimizer(optimizer, **options)
        assert isinstance(wrapped, v1.train.Optimizer)
        minimize = wrapped.minimize(loss, global_step=step)
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        for _ in range(steps):
            session.run(minimize)
            history.append(session.run([plain, table, step]))
    return history


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sparse_as_dense": True},
        {"compression": hvd.Compression.fp16},
        {"gradient_predivide_factor": 2.0},
        {"groups": 1},
    ],
    ids=str,
)
def test_averages(options: dict[str, Any]) -> None:
    history = train(3, v1.train.GradientDescentOptimizer(1.0), **options)
    for number, (plain, table, step) in enumerate(history, start=1):
        assert_same(plain, [-number * mean_rank()] * 2, 1e-6)
        assert_same(table, [[-number], [0]], 1e-6)
        assert step == number


def test_sum() -> None:
    ((plain, table, _),) = train(1, v1.train.GradientDescentOptimizer(1.0), op=hvd.Sum)
    assert_same(plain, [-hvd.size() * mean_rank()] * 2, 1e-6)
    assert_same(table, [[-hvd.size()], [0]])


@pytest.mark.parametrize("averaged", [False, True])
def test_aggregation_of_backward_passes(averaged: bool) -> None:
    history = train(
        9,
        v1.train.GradientDescentOptimizer(1.0),
        backward_passes_per_step=4,
        average_aggregated_gradients=averaged,
        sparse_as_dense=True,
    )
    for number, (plain, table, step) in enumerate(history, start=1):
        applied = (number // 4) * (1 if averaged else 4)
        assert_same(plain, [-applied * mean_rank()] * 2, 1e-6)
        assert_same(table, [[-applied], [0]], 1e-6)
        assert step == number


def test_aggregation_needs_dense_gradients_and_passes() -> None:
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    with pytest.raises(ValueError, match="sparse_as_dense"):
        train(1, optimizer, backward_passes_per_step=2)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="above 0"):
        hvd.DistributedOptimizer(optimizer, backward_passes_per_step=0)
    with pytest.raises(ValueError, match="eagerly"):
        hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2)


def test_local_variables() -> None:
    for passes in (1, 2):
        with tf.Graph().as_default(), v1.Session() as session:
            own, shared = (v1.get_variable(name, initializer=[0.0]) for name in ("own", "shared"))
            optimizer = hvd.DistributedOptimizer(
                v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=passes
            )
            optimizer.register_local_var(own)
            minimize = optimizer.minimize(tf.reduce_sum((own + shared) * (1.0 + hvd.rank())))
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for _ in range(passes):
                session.run(minimize)
            assert_same(session.run(own), [-passes * (1 + hvd.rank()) / hvd.size()], 1e-6)
            assert_same(session.run(shared), [-passes * mean_rank()], 1e-6)


def test_the_wrapped_optimizer_keeps_its_state() -> None:
    with tf.Graph().as_default():
        inner = v1.train.MomentumOptimizer(0.1, 0.9)
        optimizer = hvd.DistributedOptimizer(inner)
        variable = v1.get_variable("v", initializer=[0.0])
        optimizer.minimize(tf.reduce_sum(variable))
        assert optimizer.get_slot_names() == inner.get_slot_names() == ["momentum"]
        assert optimizer.get_slot(variable, "momentum") is inner.get_slot(variable, "momentum")
        assert len(optimizer.variables()) == len(inner.variables()) == 1
        assert optimizer.get_name() == "DistributedMomentumOptimizer"


def test_eagerly() -> None:
    variable, unused = tf.Variable([0.0]), tf.Variable([0.0])
    optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0))
    pairs = optimizer.compute_gradients(
        lambda: tf.reduce_sum(variable * (1.0 + hvd.rank())), [variable, unused]
    )
    assert pairs[1][0] is None
    optimizer.apply_gradients(pairs)
    assert_same(variable, [-mean_rank()], 1e-6)


def test_senseless_options() -> None:
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    with pytest.raises(ValueError, match="predivide"):
        hvd.DistributedOptimizer(optimizer, gradient_predivide_factor=2.0, op=hvd.Sum)
    with pytest.raises(ValueError, match="average_aggregated_gradients"):
        hvd.DistributedOptimizer(optimizer, op=hvd.Adasum, average_aggregated_gradients=True)
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(optimizer, groups=-1)
    with pytest.raises(ValueError, match="expected an optimizer"):
        hvd.DistributedOptimizer(object())


def test_infinite_gradients_do_not_outlive_their_step() -> None:
    helper = LocalGradientAggregationHelperEager(
        backward_passes_per_step=2,
        allreduce_func=lambda gradients, _: [hvd.allreduce(each) for each in gradients],
        sparse_as_dense=False,
        average_aggregated_gradients=True,
    )
    variable = tf.Variable([1.0])
    results = []
    for value in (np.inf, 1.0, 2.0, 4.0):
        (gradient, missing) = helper.compute_gradients([tf.constant([value]), None], [variable] * 2)
        results.append(float(gradient[0]))
        assert missing is None
    assert results == [np.inf, np.inf, 2.0, 3.0]
    assert int(helper.counter) == 0


def adasum(vectors: list[np.ndarray]) -> np.ndarray:
    """Pairs, and pairs of pairs, as the definition says."""
    if len(vectors) == 1:
        return vectors[0]
    half = len(vectors) // 2
    a, b = adasum(vectors[:half]), adasum(vectors[half:])
    dot, a2, b2 = (float(np.sum(x * y)) for x, y in ((a, b), (a, a), (b, b)))
    return (1 - dot / (2 * a2)) * a + (1 - dot / (2 * b2)) * b


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 2e-2), ("float32", 1e-5), ("float64", 1e-9)]
)
def test_adasum(dtype: str, tolerance: float) -> None:
    vectors = [np.random.default_rng(rank).normal(size=33) for rank in range(hvd.size())]
    result = hvd.allreduce(tf.constant(vectors[hvd.rank()].astype(dtype)), op=hvd.Adasum)
    assert_same(
        result, adasum([vector.astype(dtype).astype("float64") for vector in vectors]), tolerance
    )


@pytest.mark.parametrize("passes", [1, 2])
def test_adasum_of_what_steps_have_changed(passes: int) -> None:
    """Parallel changes are averaged."""
    history = train(
        2 * passes,
        v1.train.GradientDescentOptimizer(1.0),
        op=hvd.Adasum,
        backward_passes_per_step=passes,
    )
    assert_same(history[-1][0], [-2 * passes * mean_rank()] * 2, 1e-5)
    if passes == 2:
        assert_same(history[0][0], [-(1.0 + hvd.rank())] * 2, 1e-6)


@pytest.mark.usefixtures("several_ranks")
def test_adasum_is_for_all_ranks() -> None:
    alone = hvd.ProcessSet([0])
    with pytest.raises(NotImplementedError, match="all ranks"):
        hvd.allreduce(tf.constant([1.0]), op=hvd.Adasum, process_set=alone)
    with pytest.raises(NotImplementedError, match="all ranks"):
        hvd.DistributedOptimizer(
            v1.train.GradientDescentOptimizer(1.0), op=hvd.Adasum, process_set=alone
        )
    with pytest.raises(NotImplementedError, match="power of two"):
        hvd.check_num_rank_power_of_2(6)


@pytest.mark.parametrize("compiled", [False, True])
def test_batch_normalization_over_all_ranks(compiled: bool) -> None:
    """As the plain layer on the batches of all ranks together, gradients included."""
    batches = np.random.default_rng(0).normal(1, 3, (hvd.size(), 4, 3)).astype("float32")
    layer, plain = hvd.SyncBatchNormalization(axis=1), tf.keras.layers.BatchNormalization(axis=1)

    def gradient(layer: Any, inputs: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=True)
            loss = tf.reduce_sum(outputs * weights)
        return outputs, tape.gradient(loss, inputs)

    weights = np.random.default_rng(1).normal(size=batches.shape).astype("float32")
    inputs = tf.constant(batches[hvd.rank()])
    layer(inputs, training=False)
    compute = tf.function(gradient) if compiled else gradient
    outputs, own = compute(layer, inputs, tf.constant(weights[hvd.rank()]))
    whole, expected = gradient(
        plain, tf.constant(batches.reshape(-1, 3)), tf.constant(weights.reshape(-1, 3))
    )
    part = slice(4 * hvd.rank(), 4 * hvd.rank() + 4)
    assert_same(outputs, whole[part], 1e-4)
    assert_same(own, expected[part], 1e-4)
    assert_same(layer.moving_mean, plain.moving_mean, 1e-5)
    assert_same(layer.moving_variance, plain.moving_variance, 1e-5)
    assert layer.name.startswith("sync_batch_normalization")


def test_fused_batch_normalization_is_refused() -> None:
    for fused in (True, None):
        with pytest.raises(ValueError, match="fused"):
            hvd.SyncBatchNormalization(fused=fused)
