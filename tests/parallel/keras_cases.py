"""What the tests of Keras share.

They run with the Keras that there is: Keras 3 on the backend that KERAS_BACKEND chooses, Keras 2,
or `tf_keras` where TF_USE_LEGACY_KERAS is set.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest

if os.environ.get("TF_USE_LEGACY_KERAS"):
    import tensorflow as tf

    import horovod.tensorflow.keras as hvd

    keras: Any = tf.keras
else:
    import keras  # type: ignore[no-redef]

    import horovod.keras as hvd

from horovod import _keras

KERAS_3 = _keras.is_keras_3(keras)
BACKEND = _keras.backend_name(keras)
ON_TENSORFLOW = BACKEND == "tensorflow"

needs_keras_3 = pytest.mark.skipif(not KERAS_3, reason="Keras 3 only")
needs_keras_2 = pytest.mark.skipif(KERAS_3, reason="Keras 2 only")
needs_tensorflow = pytest.mark.skipif(not ON_TENSORFLOW, reason="TensorFlow only")
not_on_jax = pytest.mark.skipif(BACKEND == "jax", reason="not on JAX")

__all__ = ["BACKEND", "KERAS_3", "ON_TENSORFLOW", "hvd", "keras"]


def variable(value: Any, name: str | None = None) -> Any:
    """A variable as layers have them."""
    value = np.asarray(value, dtype=np.float32)
    if KERAS_3:
        return keras.Variable(value, name=name)
    import tensorflow as tf

    return tf.Variable(value, name=name)


def array(value: Any) -> Any:
    """What a tensor or a variable holds."""
    return np.asarray(keras.ops.convert_to_numpy(value) if KERAS_3 else value.numpy())


def step(optimizer: Any, variables: list[Any], gradients: list[Any]) -> None:
    """Has an optimizer apply gradients in the way that is reduced."""
    if KERAS_3:
        tensors = [
            None if each is None else keras.ops.convert_to_tensor(each) for each in gradients
        ]
        optimizer.apply(tensors, variables)
        return
    import tensorflow as tf

    used = [
        (each, gradient) for each, gradient in zip(variables, gradients) if gradient is not None
    ]

    def loss() -> Any:
        return tf.add_n([tf.reduce_sum(each * gradient) for each, gradient in used])

    optimizer.minimize(loss, variables)


def model_of(units: list[int], inputs: int = 4) -> Any:
    """A small model of dense layers."""
    layers = [keras.layers.Dense(each, activation="tanh") for each in units[:-1]]
    model = keras.Sequential([*layers, keras.layers.Dense(units[-1])])
    model.build((None, inputs))
    return model


def weights_of(model: Any) -> Any:
    """All weights in one row."""
    return np.concatenate([array(each).ravel() for each in model.weights])[None]


def assert_equal_on_all_ranks(row: Any) -> None:
    """Fails unless every rank has the same."""
    rows = hvd.allgather(np.asarray(row, dtype=np.float64).reshape(1, -1))
    np.testing.assert_array_equal(rows, np.repeat(rows[:1], hvd.size(), axis=0))


def data(seed: int, count: int = 64) -> tuple[Any, Any]:
    """Something to learn."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(count, 4)).astype("float32")
    return inputs, inputs.sum(axis=1, keepdims=True)
