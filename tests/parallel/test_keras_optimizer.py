"""Optimizers of Keras that apply the gradients of all ranks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from keras_cases import (
    BACKEND,
    KERAS_3,
    ON_TENSORFLOW,
    array,
    assert_equal_on_all_ranks,
    data,
    hvd,
    keras,
    model_of,
    needs_keras_2,
    needs_keras_3,
    needs_tensorflow,
    not_on_jax,
    step,
    variable,
)


def mean_of_ranks() -> float:
    """The average of `rank + 1`."""
    return (hvd.size() + 1) / 2


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({}, 1),
        ({"op": hvd.Sum}, "size"),
        ({"compression": hvd.Compression.fp16}, 1),
        ({"gradient_predivide_factor": 4.0}, 1),
        ({"groups": 2}, 1),
        ({"num_groups": 1}, 1),
        ({"sparse_as_dense": True, "name": "Mine"}, 1),
        ({"groups": "first and last"}, 1),
    ],
    ids=str,
)
def test_a_step_is_the_same_on_all_ranks(options: dict[str, Any], factor: Any) -> None:
    factor = hvd.size() if factor == "size" else factor
    variables = [variable(np.full(size, 10.0), f"v{size}") for size in (1, 2, 3)]
    if options.get("groups") == "first and last":
        options = {"groups": [[variables[0], variables[2]]]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    gradients = [np.full(size, size * (hvd.rank() + 1), np.float32) for size in (1, 2, 3)]
    for count in (1, 2):
        step(optimizer, variables, gradients)
        for size, each in zip((1, 2, 3), variables):
            expected = 10 - count * size * mean_of_ranks() * factor
            np.testing.assert_allclose(array(each), np.full(size, expected), rtol=1e-6)


def test_gradients_that_are_missing(several_ranks: None) -> None:
    variables = [variable([1.0], "a"), variable([1.0], "b")]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step(optimizer, variables, [np.float32([hvd.rank() + 1]), None])
    np.testing.assert_allclose(array(variables[0]), [1 - mean_of_ranks()])
    np.testing.assert_allclose(array(variables[1]), [1.0])


def test_clipping_comes_after_the_reduction(several_ranks: None) -> None:
    """The first rank's gradient alone would be clipped, the average is not."""
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0, clipvalue=2.5))
    gradient = 4.0 if hvd.rank() == 0 else 0.0
    each = variable([0.0], "v")
    step(optimizer, [each], [np.float32([gradient])])
    np.testing.assert_allclose(array(each), [-4.0 / hvd.size()])


@needs_tensorflow
@pytest.mark.parametrize("legacy", [False, True])
def test_in_a_function(legacy: bool) -> None:
    import tensorflow as tf

    if legacy and KERAS_3:
        pytest.skip("Keras 2 only")
    optimizers = keras.optimizers.legacy if legacy else keras.optimizers
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    each = variable([0.0], "v")

    @tf.function
    def run() -> None:
        step(optimizer, [each], [np.float32([hvd.rank() + 1])])

    run()
    run()
    np.testing.assert_allclose(array(each), [-2 * mean_of_ranks()])


PASSES = 4


@not_on_jax
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("local", [0, 4])
def test_several_passes_per_step(average: bool, in_function: bool, local: int) -> None:
    if in_function and not ON_TENSORFLOW:
        pytest.skip("TensorFlow only")
    variables = [variable([0.0, 0.0], f"v{number}") for number in range(8)]
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(1.0),
        backward_passes_per_step=PASSES,
        average_aggregated_gradients=average,
    )
    for each in variables[:local]:
        optimizer.register_local_var(each)

    def run() -> None:
        gradient = np.full(2, hvd.rank() + 1, np.float32)
        step(optimizer, variables, [gradient * (number + 1) for number in range(8)])

    if in_function:
        import tensorflow as tf

        run = tf.function(run)
    for count in range(1, 11):
        run()
        assert int(array(optimizer.iterations)) == count
        assert counter_of(optimizer) == count % PASSES
        applied = count // PASSES * (1 if average else PASSES)
        for number, each in enumerate(variables):
            own = (hvd.rank() + 1) / hvd.size() if number < local else mean_of_ranks()
            expected = np.full(2, -applied * (number + 1) * own)
            np.testing.assert_allclose(array(each), expected, rtol=1e-6)


def counter_of(optimizer: Any) -> int:
    steps = optimizer._hvd()
    return int(steps.helper.counter.numpy()) if ON_TENSORFLOW else steps.passes


@not_on_jax
def test_an_infinite_gradient_is_gone_after_its_step() -> None:
    each = variable([1.0], "v")
    # That of Keras 2 has a velocity even without momentum, in which infinity stays.
    optimizers = keras.optimizers if KERAS_3 else keras.optimizers.legacy
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0), backward_passes_per_step=2)
    step(optimizer, [each], [np.float32([np.inf])])
    step(optimizer, [each], [np.float32([1.0])])
    assert not np.isfinite(array(each)).any()
    each.assign(np.float32([1.0]))
    step(optimizer, [each], [np.float32([1.0])])
    step(optimizer, [each], [np.float32([1.0])])
    np.testing.assert_allclose(array(each), [-1.0])


@needs_tensorflow
@pytest.mark.parametrize(
    "options",
    [
        {"sparse_as_dense": True},
        {},
        {"sparse_as_dense": True, "backward_passes_per_step": 2},
    ],
    ids=str,
)
def test_sparse_gradients(options: dict[str, Any]) -> None:
    """Of an embedding, of which every rank uses other rows."""
    model = keras.Sequential(
        [keras.layers.Embedding(2 * hvd.size() + 1, 2), keras.layers.Flatten()]
    )
    model.build((None, 2))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    model.compile(
        optimizer,
        loss=lambda _, output: keras.backend.sum(output) if not KERAS_3 else keras.ops.sum(output),
    )
    model.set_weights([np.zeros((2 * hvd.size() + 1, 2))])
    rows = np.array([[2 * hvd.rank(), 2 * hvd.rank() + 1]])
    passes = options.get("backward_passes_per_step", 1)
    for count in range(1, 4):
        model.train_on_batch(rows, np.zeros((1, 1)))
        if passes > 1:
            assert counter_of(optimizer) == count % passes
    applied = 3 // passes * passes
    expected = np.full((2 * hvd.size() + 1, 2), -applied / hvd.size())
    expected[-1] = 0
    np.testing.assert_allclose(array(model.weights[0]), expected, rtol=1e-6)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_local_layers(number: int, several_ranks: None) -> None:
    model = model_of([3, 2, 1])
    model.set_weights([np.ones_like(array(each)) / 4 for each in model.weights])
    layers = model.layers[:number]
    optimizer = hvd.PartialDistributedOptimizer(
        keras.optimizers.SGD(1.0), local_layers=layers[0] if number == 1 else layers
    )
    plain = model_of([3, 2, 1])
    plain.set_weights(model.get_weights())
    plain.compile(keras.optimizers.SGD(1.0), loss="mse")
    model.compile(optimizer, loss="mse")
    inputs, outputs = data(seed=hvd.rank())
    before = model.get_weights()
    model.train_on_batch(inputs, outputs)
    plain.train_on_batch(inputs, outputs)
    local = 2 * number
    for place, (start, together, alone) in enumerate(
        zip(before, model.get_weights(), plain.get_weights())
    ):
        if place < local:
            np.testing.assert_allclose((together - start) * hvd.size(), alone - start, atol=1e-6)
        else:
            assert np.abs(together - alone).max() > 1e-5
            assert_equal_on_all_ranks(together)


def test_local_gradients_need_not_be_scaled() -> None:
    each = variable([0.0], "v")
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), scale_local_gradients=False)
    optimizer.register_local_var(each)
    step(optimizer, [each], [np.float32([hvd.rank() + 1])])
    np.testing.assert_allclose(array(each), [-(hvd.rank() + 1)])


@pytest.mark.dynamic_process_sets
def test_on_a_set(several_ranks: None) -> None:
    from horovod.common.process_sets import add_process_set

    even = add_process_set(range(0, hvd.size(), 2))
    each = variable([0.0], "v")
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), process_set=even)
    step(optimizer, [each], [np.float32([hvd.rank() + 1])])
    own = hvd.rank() + 1
    expected = np.mean(np.array(even.ranks) + 1) if even.included() else own
    np.testing.assert_allclose(array(each), [-expected])


@needs_keras_3
@pytest.mark.parametrize("scale", [None, 8.0])
def test_accumulation_of_keras_is_reduced_when_it_is_due(scale: float | None) -> None:
    each = variable([0.0], "v")
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(1.0, gradient_accumulation_steps=3, loss_scale_factor=scale)
    )
    steps = optimizer._hvd()
    reduce, calls = steps.reduce, []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return reduce(*arguments)

    steps.reduce = counted
    for count in range(1, 8):
        step(optimizer, [each], [np.float32([(hvd.rank() + 1) * count * (scale or 1)])])
        due = count // 3
        if BACKEND != "jax":
            assert len(calls) == due
        expected = -mean_of_ranks() * sum([2, 5][:due])
        np.testing.assert_allclose(array(each), [expected], rtol=1e-6)


def test_configuration_makes_the_round_trip() -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.02), op=hvd.Sum)
    config = optimizer.get_config()
    assert config["learning_rate"] == pytest.approx(0.02)
    for copy in (optimizer.from_config(dict(config)), type(optimizer).from_config(dict(config))):
        assert copy.get_config() == config
        assert type(copy).__name__ == "Adam"
        assert copy._hvd_settings.op == hvd.Sum


def test_an_optimizer_with_state_keeps_it() -> None:
    each = variable([0.0], "v")
    plain = keras.optimizers.SGD(1.0, momentum=0.5)
    step(plain, [each], [np.float32([1.0])])
    optimizer = hvd.DistributedOptimizer(plain)
    step(optimizer, [each], [np.float32([0.0])])
    np.testing.assert_allclose(array(each), [-1.5])
    assert int(array(optimizer.iterations)) == 2


def test_wrapped_twice_is_reduced_once(several_ranks: None) -> None:
    each = variable([0.0], "v")
    once = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    twice = hvd.DistributedOptimizer(once, op=hvd.Sum)
    step(twice, [each], [np.float32([1.0])])
    np.testing.assert_allclose(array(each), [-hvd.size()])


@needs_keras_3
def test_variables_can_be_called() -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    assert optimizer.variables() == list(optimizer.variables)


@needs_keras_2
def test_gradients_from_elsewhere_cause_a_warning() -> None:
    each = variable([0.0], "v")
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    with pytest.warns(UserWarning, match="does not reduce"):
        optimizer.apply_gradients([(np.float32([1.0]), each)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"op": hvd.Adasum}, "op must be"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "gradient_predivide_factor"),
        ({"groups": 0}, "groups is"),
        ({"groups": True}, "groups is"),
        ({"backward_passes_per_step": 0}, "above 0"),
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="optimizer of Keras"):
        hvd.DistributedOptimizer("sgd")
    with pytest.raises(ValueError, match="Keras layers"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=[1])
    if KERAS_3:
        accumulating = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
        with pytest.raises(ValueError, match="use one of them"):
            hvd.DistributedOptimizer(accumulating, backward_passes_per_step=2)
