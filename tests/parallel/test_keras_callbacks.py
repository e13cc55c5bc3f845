"""The callbacks of Keras, with whole training runs and one call at a time."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras_cases import (
    KERAS_3,
    array,
    assert_equal_on_all_ranks,
    data,
    hvd,
    keras,
    model_of,
    needs_keras_2,
    needs_tensorflow,
    weights_of,
)


def compiled(optimizer: Any = None, units: tuple[int, ...] = (3, 1)) -> Any:
    model = model_of(list(units))
    model.compile(optimizer or keras.optimizers.SGD(0.1), loss="mse", metrics=["mae"])
    return model


def learning_rates(callback: Any, epochs: int, steps: int) -> list[float]:
    """The rate of every batch of a training run."""
    rates: list[float] = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if hasattr(self.model, "jax_state_sync"):
                self.model.jax_state_sync()
            rates.append(float(array(self.model.optimizer.learning_rate)))

    model = compiled(keras.optimizers.SGD(0.4))
    inputs, outputs = data(0, count=4 * steps)
    callbacks = callback if isinstance(callback, list) else [callback]
    model.fit(
        inputs, outputs, batch_size=4, epochs=epochs, verbose=0, callbacks=[*callbacks, Look()]
    )
    return rates


def test_warmup() -> None:
    callback = hvd.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2, verbose=1)
    rates = learning_rates(callback, epochs=3, steps=5)
    size = hvd.size()
    for batch, rate in enumerate(rates):
        epoch = min((batch + 1) / 5, 2)
        assert rate == pytest.approx(0.4 / size * (epoch * (size - 1) / 2 + 1))
    assert rates[9:] == [pytest.approx(0.4)] * 6


def test_warmup_says_when_it_is_over(capfd: pytest.CaptureFixture[str]) -> None:
    callback = hvd.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=1, verbose=1)
    learning_rates(callback, epochs=2, steps=2)
    said = "Epoch 1: finished gradual learning rate warmup to 0.4." in capfd.readouterr().out
    assert said == (hvd.rank() == 0)


def test_schedules() -> None:
    """In the order in which scripts put them: a constant factor, a staircase, a line."""
    schedule = hvd.callbacks.LearningRateScheduleCallback
    callbacks = [
        schedule(0.4, multiplier=0.5, start_epoch=0, end_epoch=2),
        schedule(0.4, multiplier=lambda epoch: 0.01 * epoch, start_epoch=2, end_epoch=4),
        schedule(0.4, multiplier=lambda epoch: epoch, start_epoch=4, staircase=False),
    ]
    rates = learning_rates(callbacks, epochs=5, steps=2)
    expected = [0.4, 0.4, 0.2, 0.2, 0.008, 0.008, 0.012, 0.012, 1.6, 1.8]
    assert rates == [pytest.approx(rate) for rate in expected]


def test_rates_are_told_with_the_metrics() -> None:
    model = compiled()
    callback = hvd.callbacks.LearningRateScheduleCallback(0.4, multiplier=0.5)
    history = model.fit(*data(0), epochs=3, verbose=0, callbacks=[callback]).history
    assert history["lr"] == [pytest.approx(rate) for rate in (0.4, 0.2, 0.1)]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("correct", [False, True])
def test_momentum_correction(correct: bool, legacy: bool) -> None:
    """Against velocities computed here; the gradient is -1 all the time."""
    if legacy and KERAS_3:
        pytest.skip("Keras 2 only")
    optimizers = keras.optimizers.legacy if legacy else keras.optimizers
    model = model_of([1], inputs=1)
    model.compile(optimizers.SGD(1.0, momentum=0.5), loss="mae")
    model.set_weights([np.float32([[0.0]]), np.float32([0.0])])
    schedule = hvd.callbacks.LearningRateScheduleCallback(
        1.0, multiplier=lambda epoch: [1.0, 0.1, 0.1][int(epoch)], momentum_correction=correct
    )
    ones = np.ones((1, 1), np.float32)
    model.fit(ones, 100 * ones, epochs=3, verbose=0, callbacks=[schedule])
    weight = velocity = 0.0
    for rate, factor in [(1.0, 1.0), (0.1, 0.1), (0.1, 1.0)]:
        velocity = 0.5 * (factor if correct else 1.0) * velocity + rate
        weight += velocity
    assert float(array(model.weights[0])[0, 0]) == pytest.approx(weight)
    assert float(np.asarray(model.optimizer.get_config()["momentum"])) == pytest.approx(0.5)


def test_wrong_arguments() -> None:
    callbacks = hvd.callbacks
    with pytest.raises(ValueError, match="initial_lr"):
        callbacks.LearningRateScheduleCallback(None, multiplier=1.0)
    with pytest.raises(ValueError, match="local_variables"):
        callbacks.BroadcastGlobalVariablesCallback(0, local_variables=["weight"])
    unknown = callbacks.LearningRateWarmupCallback(0.4)
    unknown.set_params({})
    with pytest.raises(ValueError, match="steps_per_epoch"):
        unknown.on_train_begin()
    counted = callbacks.LearningRateWarmupCallback(0.4)
    counted.set_params({"samples": 64, "batch_size": 16})
    counted.on_train_begin()
    assert counted.steps_per_epoch == 4


def test_metrics_are_averaged() -> None:
    callback = hvd.callbacks.MetricAverageCallback()
    logs = {"loss": float(hvd.rank()), "accuracy": np.float32(1.0), "text": "as it is"}
    callback.on_epoch_end(0, logs)
    assert logs == {"loss": (hvd.size() - 1) / 2, "accuracy": 1.0, "text": "as it is"}
    callback.on_epoch_end(1, None)


def test_metrics_that_some_ranks_do_not_have(several_ranks: None) -> None:
    callback = hvd.callbacks.MetricAverageCallback()
    logs = {"loss": float(hvd.rank())}
    if hvd.rank() == 0:
        logs["val_loss"] = 7.0
    with pytest.warns(UserWarning, match="val_loss"):
        callback.on_epoch_end(0, logs)
    assert logs["loss"] == (hvd.size() - 1) / 2
    assert logs.get("val_loss", 7.0) == 7.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        callback.on_epoch_end(1, logs)


@pytest.mark.parametrize("root", [0, 1])
def test_broadcast_of_model_and_optimizer(root: int, several_ranks: None) -> None:
    keras.utils.set_random_seed(hvd.rank())
    model = compiled(keras.optimizers.Adam(0.01 * (hvd.rank() + 1)))
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root)
    model.fit(*data(hvd.rank(), count=32), epochs=1, verbose=0, callbacks=[callback])
    assert callback.broadcast_done
    assert_equal_on_all_ranks(weights_of(model))
    for each in hvd.callbacks._impl.variables_of(model.optimizer):
        assert_equal_on_all_ranks(array(each))
    assert float(array(model.optimizer.learning_rate)) == pytest.approx(0.01 * (root + 1))


@pytest.mark.parametrize("as_list", [False, True])
def test_local_variables_are_not_broadcast(as_list: bool, several_ranks: None) -> None:
    model = compiled()
    model.set_weights([np.full(array(w).shape, hvd.rank()) for w in model.weights])
    local = list(model.weights[:2]) if as_list else model.weights[0]
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(1, local_variables=local)
    callback.set_model(model)
    callback.on_batch_end(0)
    for place, each in enumerate(model.weights):
        kept = place < (2 if as_list else 1)
        expected = hvd.rank() if kept else 1
        np.testing.assert_array_equal(array(each), np.full(array(each).shape, expected))


def test_training_with_all_of_them(several_ranks: None) -> None:
    """Warm-up, three schedules, averages: ranks see the same losses and end with the same model."""
    keras.utils.set_random_seed(hvd.rank())
    callbacks = hvd.callbacks
    initial = 0.02
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.Adam(initial)))
    inputs, outputs = data(hvd.rank())
    used = [
        callbacks.BroadcastGlobalVariablesCallback(0),
        callbacks.MetricAverageCallback(),
        callbacks.LearningRateWarmupCallback(initial, warmup_epochs=5),
        callbacks.LearningRateScheduleCallback(initial, 1.0, start_epoch=5, end_epoch=6),
        callbacks.LearningRateScheduleCallback(
            initial, lambda epoch: 0.1, start_epoch=6, end_epoch=7
        ),
        callbacks.LearningRateScheduleCallback(initial, lambda epoch: 0.01, start_epoch=7),
    ]
    history = model.fit(
        *(inputs, outputs),
        validation_data=data(100 + hvd.rank()),
        epochs=8,
        verbose=0,
        callbacks=used,
    ).history
    assert all(rate <= initial * (1 + 1e-6) for rate in history["lr"][:5])
    assert history["lr"][4:] == [
        pytest.approx(initial * factor) for factor in (1.0, 1.0, 0.1, 0.01)
    ]
    for name in ("loss", "mae", "val_loss", "val_mae"):
        assert_equal_on_all_ranks(history[name])
    assert history["loss"][-1] < history["loss"][0]
    assert_equal_on_all_ranks(weights_of(model))


def test_best_model(tmp_path: Path) -> None:
    callback = hvd.callbacks.BestModelCheckpoint(monitor="loss")
    assert callback.filepath is None
    assert callback.save_best_only
    # ModelCheckpoint of Keras 2.13 cannot write the other format.
    callback.filepath = str(tmp_path / ("best.keras" if KERAS_3 else "best.h5"))
    model = compiled()
    model.fit(*data(0), epochs=2, verbose=0, callbacks=[callback])
    loaded = keras.models.load_model(callback.filepath)
    assert weights_of(loaded).shape == weights_of(model).shape
    assert hvd.callbacks.BestModelCheckpoint(save_weights_only=True).filepath is None


@needs_keras_2
def test_global_variables_of_a_graph() -> None:
    import tensorflow as tf

    with tf.Graph().as_default():
        each = tf.compat.v1.get_variable("v", initializer=float(hvd.rank()), use_resource=True)
        session = tf.compat.v1.keras.backend.get_session()
        session.run(tf.compat.v1.global_variables_initializer())
        hvd.broadcast_global_variables(hvd.size() - 1)
        assert session.run(each) == hvd.size() - 1
    tf.compat.v1.keras.backend.clear_session()


@needs_tensorflow
def test_there_are_no_global_variables_without_a_graph() -> None:
    with pytest.raises(RuntimeError, match="does not work eagerly"):
        hvd.broadcast_global_variables(0)
