"""Which Keras, and what computes underneath it."""

from __future__ import annotations

import importlib
from typing import Any


def is_keras_3(keras: Any) -> bool:
    """Whether this is Keras 3 or newer, and not `tf.keras` of old or `tf_keras`."""
    return hasattr(keras.optimizers.Optimizer, "stateless_apply")


def backend_name(keras: Any) -> str:
    """What holds tensors: `tensorflow`, `torch`, `jax` or `numpy`."""
    return keras.backend.backend() if is_keras_3(keras) else "tensorflow"


def bridge(keras: Any) -> Any:
    """The module that knows the tensors of this Keras."""
    name = backend_name(keras)
    if name not in ("tensorflow", "torch"):
        name = "array"
    return importlib.import_module(f"horovod._keras.{name}_bridge")


def kind_of(optimizer: Any) -> str:
    """`keras3`, `keras2`, or `legacy`: the optimizers that Keras had before 2.11."""
    if hasattr(optimizer, "stateless_apply"):
        return "keras3"
    if hasattr(optimizer, "compute_gradients") and hasattr(optimizer, "get_config"):
        return "keras2"
    if hasattr(optimizer, "_compute_gradients"):
        return "legacy"
    raise ValueError(f"expected an optimizer of Keras, not {type(optimizer).__name__}")
