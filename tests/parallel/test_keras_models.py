"""Models with a distributed optimizer: compiled, trained, saved and loaded."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
import zipfile
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
    needs_tensorflow,
    step,
    variable,
    weights_of,
)

from horovod._keras import Distributed


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_training_equals_one_process_with_the_whole_batch(optimizer: str) -> None:
    inputs, outputs = data(0, count=16 * hvd.size())
    start = [np.random.default_rng(7).normal(size=array(w).shape) for w in model_of([3, 1]).weights]
    models = []
    for distributed in (True, False):
        model = model_of([3, 1])
        model.set_weights(start)
        plain = getattr(keras.optimizers, optimizer)(0.05)
        model.compile(hvd.DistributedOptimizer(plain) if distributed else plain, loss="mse")
        models.append(model)
    part = slice(16 * hvd.rank(), 16 * (hvd.rank() + 1))
    for _ in range(10):
        models[0].train_on_batch(inputs[part], outputs[part])
        models[1].train_on_batch(inputs, outputs)
    assert_equal_on_all_ranks(weights_of(models[0]))
    np.testing.assert_allclose(weights_of(models[0]), weights_of(models[1]), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("eagerly", [False, True])
def test_fit(eagerly: bool) -> None:
    keras.utils.set_random_seed(hvd.rank())
    model = model_of([3, 1])
    model.compile(
        hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), loss="mse", run_eagerly=eagerly
    )
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    losses = model.fit(
        *data(hvd.rank()), batch_size=16, epochs=2, verbose=0, callbacks=callbacks
    ).history["loss"]
    assert losses[-1] < losses[0]
    assert_equal_on_all_ranks(weights_of(model))


@needs_tensorflow
@pytest.mark.parametrize("positional", [False, True])
def test_xla_is_refused(positional: bool) -> None:
    model = model_of([1])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05))
    with pytest.warns(UserWarning, match="jit_compile=True is not possible"):
        if positional:
            model.compile(optimizer, "mse", jit_compile=True)
        else:
            model.compile(optimizer=optimizer, loss="mse", jit_compile=True)
    assert not model.jit_compile
    model.train_on_batch(*data(hvd.rank()))
    assert_equal_on_all_ranks(array(model.optimizer.iterations))


@needs_tensorflow
def test_other_models_are_compiled_as_before() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="jit_compile")
        model = model_of([1])
        model.compile(keras.optimizers.SGD(0.05), loss="mse", jit_compile=True)
        distributed = model_of([1])
        distributed.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), loss="mse")
    assert model.jit_compile
    assert not distributed.jit_compile


def scaled_optimizer(inside: bool) -> Any:
    scale = (
        keras.optimizers.LossScaleOptimizer if KERAS_3 else keras.mixed_precision.LossScaleOptimizer
    )
    options = {"initial_scale": 4.0} if KERAS_3 else {"initial_scale": 4.0, "dynamic": True}
    if inside:
        return scale(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)), **options)
    return hvd.DistributedOptimizer(scale(keras.optimizers.SGD(1.0), **options))


@pytest.mark.parametrize("inside", [False, True])
def test_a_loss_scale_when_one_rank_overflows(inside: bool, several_ranks: None) -> None:
    """All ranks leave the step out and lower the scale, whichever way round it was wrapped."""
    model = model_of([1])
    model.compile(scaled_optimizer(inside), loss="mse")
    if KERAS_3:
        assert isinstance(model.optimizer, Distributed)
    inputs, outputs = data(hvd.rank())
    before = weights_of(model)
    broken = np.where(hvd.rank() == 1, np.float32(np.inf), outputs)
    model.train_on_batch(inputs, broken)
    np.testing.assert_array_equal(weights_of(model), before)
    scale = model.optimizer.dynamic_scale if KERAS_3 else model.optimizer.loss_scale
    assert float(array(scale) if KERAS_3 else scale.numpy()) == 2.0
    model.set_weights([np.zeros(array(each).shape) for each in model.weights])
    model.train_on_batch(inputs, outputs)
    assert np.abs(weights_of(model)).max() > 0
    assert_equal_on_all_ranks(weights_of(model))


def test_mixed_precision(several_ranks: None) -> None:
    """Keras adds the loss scale itself."""
    before = (
        keras.mixed_precision.dtype_policy() if KERAS_3 else keras.mixed_precision.global_policy()
    )
    set_policy = (
        keras.mixed_precision.set_dtype_policy
        if KERAS_3
        else keras.mixed_precision.set_global_policy
    )
    set_policy("mixed_float16")
    try:
        model = model_of([3, 1])
        plain = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))
        model.compile(plain, loss="mse")
        assert "LossScale" in type(model.optimizer).__name__
        model.set_weights([np.zeros(array(each).shape) for each in model.weights])
        inputs, outputs = data(hvd.rank())
        for _ in range(3):
            model.train_on_batch(inputs, outputs)
        model.train_on_batch(inputs, np.where(hvd.rank() == 0, np.float32(np.inf), outputs))
        assert_equal_on_all_ranks(weights_of(model))
        assert np.isfinite(weights_of(model)).all()
    finally:
        set_policy(before)


WITHOUT_HOROVOD = """
import json, os, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "horovod":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
if os.environ.get("TF_USE_LEGACY_KERAS"):
    import tensorflow as tf
    keras = tf.keras
else:
    import keras
{before}
model = keras.models.load_model(sys.argv[1])
optimizer = model.optimizer
print("LOADED", json.dumps([
    type(optimizer).__name__, type(optimizer).__module__, int(optimizer.iterations),
    float(optimizer.learning_rate), "horovod" in sys.modules,
]))
"""
CUSTOM = """
class MySGD(keras.optimizers.SGD):
    pass
MySGD = keras.utils.register_keras_serializable("tests", "MySGD")(MySGD)
"""


def load_without_horovod(path: Path, before: str = "") -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOROVOD.format(before=before), str(path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("LOADED")]
    return json.loads(line.removeprefix("LOADED"))


def trained(optimizer: Any, path: Path) -> Any:
    """A model after two steps, saved."""
    model = model_of([3, 1])
    model.compile(optimizer, loss=keras.losses.MeanSquaredError())
    for _ in range(2):
        model.train_on_batch(*data(hvd.rank()))
    model.save(path)
    return model


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_saved_model_loads_without_horovod(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{ending}"
    trained(hvd.DistributedOptimizer(keras.optimizers.Adam(0.25)), path)
    if hvd.rank() == 0:
        name, module, iterations, rate, horovod_there = load_without_horovod(path)
        assert (name, iterations, rate, horovod_there) == ("Adam", 2, 0.25, False)
        assert "keras" in module
    if ending == "keras":
        with zipfile.ZipFile(path) as archive:
            assert b"orovod" not in archive.read("config.json")


def test_a_saved_model_with_an_optimizer_of_ones_own(tmp_path: Path) -> None:
    names = {"keras": keras}
    exec(CUSTOM, names)
    path = tmp_path / "model.keras"
    mine = names["MySGD"]
    trained(hvd.DistributedOptimizer(mine(0.5)), path)
    if hvd.rank() == 0:
        name, _, iterations, rate, _ = load_without_horovod(path, before=CUSTOM)
        assert (name, iterations, rate) == ("MySGD", 2, 0.5)
    assert type(keras.models.load_model(path).optimizer) is mine
    loaded = hvd.load_model(path).optimizer
    assert isinstance(loaded, mine)
    assert isinstance(loaded, Distributed)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_load_model(wrapped: bool, ending: str, tmp_path: Path, several_ranks: None) -> None:
    """Whether or not the optimizer was distributed when the model was saved."""
    plain = keras.optimizers.SGD(0.25, momentum=0.5)
    path = tmp_path / f"model.{ending}"
    saved = trained(hvd.DistributedOptimizer(plain) if wrapped else plain, path)
    model = hvd.load_model(path, compression=hvd.Compression.fp16)
    optimizer = model.optimizer
    assert type(optimizer).__name__ == "SGD"
    assert isinstance(optimizer, Distributed)
    assert optimizer._hvd_settings.compression is hvd.Compression.fp16
    assert float(array(optimizer.learning_rate)) == 0.25
    np.testing.assert_array_equal(weights_of(model), weights_of(saved))
    variables = hvd.callbacks._impl.variables_of
    if ending == "keras" or not KERAS_3:
        # Keras 3 does not read slots from HDF5.
        assert len(variables(optimizer)) == len(variables(saved.optimizer))
        for ours, before in zip(variables(optimizer), variables(saved.optimizer)):
            np.testing.assert_array_equal(array(ours), array(before))
    model.set_weights([np.zeros(array(w).shape) for w in model.weights])
    model.fit(
        *data(hvd.rank(), count=32),
        verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
    )
    assert_equal_on_all_ranks(weights_of(model))


class Slow(keras.optimizers.SGD):
    """Not registered."""


@pytest.mark.parametrize("how", ["custom_optimizers", "custom_objects", "distributed"])
def test_load_model_with_other_classes(how: str, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    trained(Slow(0.5), path)
    if how == "custom_optimizers":
        model = hvd.load_model(path, custom_optimizers=[Slow])
    elif how == "custom_objects":
        model = hvd.load_model(path, custom_objects={"Slow": Slow})
    else:
        summing = type(hvd.DistributedOptimizer(Slow(0.5), op=hvd.Sum))
        model = hvd.load_model(path, custom_objects={"Slow": summing})
        assert model.optimizer._hvd_settings.op == hvd.Sum
    assert isinstance(model.optimizer, Slow)
    assert isinstance(model.optimizer, Distributed)
    assert float(array(model.optimizer.learning_rate)) == 0.5


def test_load_on_the_root_and_broadcast(tmp_path: Path, several_ranks: None) -> None:
    keras.utils.set_random_seed(hvd.rank())
    path = tmp_path / "model.keras"
    if hvd.rank() == 0:
        alone = model_of([3, 1])
        alone.compile(keras.optimizers.SGD(0.25, momentum=0.5), loss="mse")
        alone.train_on_batch(*data(0))
        alone.save(path)
        model = hvd.load_model(path)
    else:
        model = model_of([3, 1])
        plain = keras.optimizers.SGD(0.25, momentum=0.5)
        model.compile(hvd.DistributedOptimizer(plain), loss="mse")
    model.fit(
        *data(0, count=32),
        batch_size=32,
        verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
    )
    assert_equal_on_all_ranks(weights_of(model))
    assert_equal_on_all_ranks(array(model.optimizer.iterations))


@needs_tensorflow
def test_through_the_namespaces_of_tensorflow(several_ranks: None) -> None:
    """`horovod.tensorflow` passes optimizers of Keras on, with all options."""
    import horovod.tensorflow as hvd_tensorflow
    import horovod.tensorflow.keras as hvd_keras

    optimizer = hvd_tensorflow.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum, groups=1)
    each = variable([0.0], "v")
    step(optimizer, [each], [np.float32([1.0])])
    np.testing.assert_allclose(array(each), [-hvd.size()])
    assert isinstance(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(1.0)), Distributed)
    with pytest.raises(ValueError, match="Adasum"):
        hvd_tensorflow.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd_tensorflow.Adasum)
