"""Gradient tapes whose gradients are those of all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import assert_same

import horovod.tensorflow as hvd
from horovod.tensorflow.gradient_reduction import _compiled


def mean_rank() -> float:
    """The average of 1 + rank."""
    return 1 + (hvd.size() - 1) / 2


def gradients(sources: Any, loss: Any, **options: Any) -> Any:
    with tf.GradientTape() as tape:
        value = loss()
    generic = options.pop("use_generic_names", False)
    tape = hvd.DistributedGradientTape(tape, **options)
    return tape.gradient(value, sources, use_generic_names=generic)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": hvd.Compression.fp16},
        {"gradient_predivide_factor": 2.0},
        {"groups": 2},
        {"use_generic_names": True},
        {"groups": 1, "use_generic_names": True},
    ],
    ids=str,
)
def test_averages(compiled: bool, options: dict[str, Any]) -> None:
    variables = [tf.Variable(tf.ones(shape)) for shape in ((3,), (2, 2), ())]
    factor = 1.0 + hvd.rank()

    def compute() -> Any:
        def loss() -> Any:
            return tf.add_n([tf.reduce_sum(variable * factor) for variable in variables])

        return gradients(variables, loss, **options)

    for gradient, variable in zip((tf.function(compute) if compiled else compute)(), variables):
        assert_same(gradient, np.full(variable.shape, mean_rank()), 1e-6)


def test_structures_and_missing_gradients() -> None:
    one, two, unused = (tf.Variable(1.0) for _ in range(3))
    with tf.GradientTape(persistent=True) as tape:
        loss = one * (1.0 + hvd.rank()) + two
    tape = hvd.DistributedGradientTape(tape)
    assert isinstance(tape, tf.GradientTape)
    single = tape.gradient(loss, one)
    assert_same(single, mean_rank(), 1e-6)
    listed = tape.gradient(loss, [unused, one, two])
    assert listed[0] is None
    assert_same(listed[1:], [mean_rank(), 1], 1e-6)
    named = tape.gradient(loss, {"a": two, "b": one})
    assert_same([named["a"], named["b"]], [1, mean_rank()], 1e-6)


def test_as_a_context() -> None:
    variable = tf.Variable(2.0)
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = variable * variable * (1.0 + hvd.rank())
    assert_same(tape.gradient(loss, [variable]), [4 * mean_rank()], 1e-6)


@pytest.mark.parametrize("sparse_as_dense", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_sparse_gradients(sparse_as_dense: bool, compiled: bool) -> None:
    table = tf.Variable(tf.ones([hvd.size() + 1, 2]))

    def compute() -> Any:
        def loss() -> Any:
            return tf.reduce_sum(tf.gather(table, [0, 1 + hvd.rank()]))

        (gradient,) = gradients([table], loss, sparse_as_dense=sparse_as_dense)
        assert isinstance(gradient, tf.IndexedSlices) != sparse_as_dense
        return tf.convert_to_tensor(gradient)

    expected = np.full((hvd.size() + 1, 2), 1 / hvd.size())
    expected[0] = 1
    assert_same((tf.function(compute) if compiled else compute)(), expected, 1e-6)


def test_groups_of_variables() -> None:
    variables = [tf.Variable(tf.ones(n + 1)) for n in range(4)]

    def loss() -> Any:
        return tf.add_n([tf.reduce_sum(variable * (1.0 + hvd.rank())) for variable in variables])

    for groups in ([[variables[2], variables[0]]], [variables], 3, 100):
        for gradient in gradients(variables, loss, groups=groups):
            assert_same(gradient, np.full(gradient.shape, mean_rank()), 1e-6)


def test_tapes_of_many_steps_share_what_was_traced() -> None:
    """Outside of functions each step has a tape of its own; only the first one is slow."""
    variable = tf.Variable(tf.ones([3]))
    options = {"gradient_predivide_factor": 4.0}
    gradients([variable], lambda: tf.reduce_sum(variable), **options)
    before = _compiled.cache_info()
    for _ in range(5):
        gradients([variable], lambda: tf.reduce_sum(variable), **options)
    after = _compiled.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 5)


def test_senseless_options() -> None:
    tape = tf.GradientTape()
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedGradientTape(tape, groups=0)
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedGradientTape(tape, groups="all")
    with pytest.raises(ValueError, match="predivide"):
        hvd.DistributedGradientTape(tape, gradient_predivide_factor=2.0, op=hvd.Sum)
    with pytest.warns(DeprecationWarning, match="num_groups"):
        hvd.DistributedGradientTape(tape, num_groups=2)
    with pytest.raises(ValueError, match="layers"):
        hvd.PartialDistributedGradientTape(tape, local_layers=["dense"])


@pytest.mark.parametrize("scaled", [False, True])
def test_local_sources(scaled: bool) -> None:
    own, shared = tf.Variable(1.0), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = (own + shared) * (1.0 + hvd.rank())
    tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scaled)
    tape.register_local_source(own)
    local, reduced = tape.get_local_and_global_gradients(loss, [own, shared])
    assert local[0][0] is own and reduced[0][0] is shared
    assert_same(local[0][1], (1 + hvd.rank()) / (hvd.size() if scaled else 1), 1e-6)
    assert_same(reduced[0][1], mean_rank(), 1e-6)


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_local_layers(count: int, compiled: bool) -> None:
    layers = [tf.keras.layers.Dense(2, kernel_initializer="ones") for _ in range(3)]
    model = tf.keras.Sequential([tf.keras.Input((3,)), *layers])
    local = layers[:count]

    def compute(partial: bool) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.ones([1, 3]))) * (1.0 + hvd.rank())
        if partial:
            chosen = local[0] if count == 1 else local
            tape = hvd.PartialDistributedGradientTape(tape, local_layers=chosen)
        return tape.gradient(loss, model.trainable_weights)

    compute = tf.function(compute) if compiled else compute
    for number, (own, gradient) in enumerate(zip(compute(False), compute(True))):
        if number < 2 * count:
            assert_same(gradient * hvd.size(), own, 1e-5)
        else:
            assert_same(gradient / mean_rank(), own / (1 + hvd.rank()), 1e-5)


def test_an_embedding_shared_out_over_ranks() -> None:
    """Each rank has some of the rows, asks for those it needs, and trains its own."""
    size, rank = hvd.size(), hvd.rank()
    rows = tf.Variable(tf.fill([2, 3], float(rank)))
    dense = tf.Variable(tf.ones([3, 1]))

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            asked = hvd.alltoall(tf.repeat(tf.constant([[0], [1]]), size, 0)[:size])
            found = tf.gather(rows, tf.reshape(asked, [-1]))
            embedded = hvd.alltoall(found)
            loss = tf.reduce_mean(tf.matmul(embedded, dense))
        tape = hvd.DistributedGradientTape(tape)
        tape.register_local_source(rows)
        own, shared = tape.gradient(loss, [rows, dense])
        return embedded, tf.convert_to_tensor(own), shared

    embedded, own, shared = step()
    assert_same(embedded[:, 0], range(size))
    assert np.isfinite(own).all() and float(tf.reduce_sum(own)) > 0
    assert_same(shared, np.full((3, 1), (size - 1) / 2), 1e-6)


def test_compiled_by_xla() -> None:
    """Collectives stay outside of what XLA compiles; inside, they are refused by name."""
    variable = tf.Variable([1.0, 2.0])

    @tf.function(jit_compile=True)
    def own_gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * variable) * (1.0 + hvd.rank())
        return tape.gradient(loss, variable)

    @tf.function
    def step() -> Any:
        return hvd.allreduce(own_gradient())

    assert_same(step(), np.array([2, 4]) * mean_rank(), 1e-6)
    refused = tf.function(lambda: hvd.allreduce(variable), jit_compile=True)
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)) as caught:
        refused()
    assert "HorovodAllreduce" in str(caught.value)


def test_clusters_of_xla_leave_collectives_out() -> None:
    tf.config.optimizer.set_jit("autoclustering")
    try:

        @tf.function
        def step(tensor: Any) -> Any:
            return hvd.allreduce(tf.tanh(tensor) * 0.0 + 1.0, op=hvd.Sum) * 2.0

        for _ in range(3):
            assert_same(step(tf.ones([8])), np.full(8, 2 * hvd.size()))
    finally:
        tf.config.optimizer.set_jit(False)
