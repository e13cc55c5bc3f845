"""The ways to run something with TensorFlow: eagerly, in a `tf.function`, in a Session's graph.

What is run gets its arrays as tensors and returns tensors, which come back as arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import horovod.tensorflow as hvd

Run = Callable[..., Any]

REDUCED = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
MOVED = (*REDUCED, "uint16", "int16", "bool")
SCATTERED = ("int32", "int64", "float16", "bfloat16", "float32", "float64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def as_array(value: Any) -> Any:
    """Nested results as arrays, of a type that NumPy can compute with."""
    if isinstance(value, (list, tuple)):
        return [as_array(item) for item in value]
    if isinstance(value, tf.IndexedSlices):
        return [as_array(value.values), as_array(value.indices)]
    if value is None or isinstance(value, tf.Operation):
        return None
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    return array.astype("float32") if array.dtype == tf.bfloat16.as_numpy_dtype else array


def run_eagerly(function: Run, *arrays: Any) -> Any:
    return as_array(function(*(tf.constant(array) for array in arrays)))


def run_in_function(function: Run, *arrays: Any) -> Any:
    return run_eagerly(tf.function(function), *arrays)


def run_in_session(function: Run, *arrays: Any) -> Any:
    with tf.Graph().as_default():
        places = [tf.compat.v1.placeholder(tf.constant(array).dtype) for array in arrays]
        results = function(*places)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            return as_array(session.run(results, dict(zip(places, arrays))))


MODES = {"eager": run_eagerly, "function": run_in_function, "session": run_in_session}


@pytest.fixture(params=MODES)
def run(request: pytest.FixtureRequest) -> Run:
    return MODES[request.param]


def typed(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of a type that TensorFlow knows by name."""
    return array.astype(tf.as_dtype(dtype).as_numpy_dtype)


def mine(shape: tuple[int, ...], dtype: str = "float32", rank: int | None = None) -> np.ndarray:
    """What a rank contributes: small whole numbers that depend on the rank alone."""
    rank = hvd.rank() if rank is None else rank
    low = 0 if dtype in ("uint8", "uint16", "bool") else -3
    numbers = np.random.default_rng([rank, *shape]).integers(low, 4, shape)
    return typed(numbers > 1 if dtype == "bool" else numbers, dtype)


def everyones(shape: tuple[int, ...], dtype: str = "float32", ranks: Any = None) -> np.ndarray:
    """What ranks contribute, by rank, as numbers to compute with."""
    ranks = range(hvd.size()) if ranks is None else ranks
    return np.stack([mine(shape, dtype, rank) for rank in ranks]).astype("float64")


def assert_same(array: Any, expected: Any, tolerance: float = 0.0) -> None:
    array, expected = np.asarray(array, "float64"), np.asarray(expected, "float64")
    assert array.shape == expected.shape
    np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance)


def share(rows: int, rank: int | None = None, size: int | None = None) -> slice:
    """The rows that a rank gets from a reducescatter."""
    rank = hvd.rank() if rank is None else rank
    shortest, longer = divmod(rows, hvd.size() if size is None else size)
    start = rank * shortest + min(rank, longer)
    return slice(start, start + shortest + (rank < longer))


def gradient_of(function: Run, *arrays: Any) -> Any:
    """The gradient of the sum of what a function returns, by the arrays it gets."""
    tensors = [tf.constant(array) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        total = tf.add_n([tf.reduce_sum(part) for part in tf.nest.flatten(function(*tensors))])
    return as_array(tape.gradient(total, tensors))
