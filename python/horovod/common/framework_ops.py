"""Ops that the extension module adds to a framework, whose kernels run without Python."""

from __future__ import annotations

from horovod import _core


def register_tensorflow() -> list[str]:
    """Adds the ops to the TensorFlow that is loaded, once, and returns their names.

    Raises ImportError if it cannot be done with this TensorFlow.
    """
    return _core.tensorflow_register()


def jax_handler() -> int:
    """The address of the function that compiled programs of JAX call."""
    return _core.jax_handler()


mxnet_load = _core.mxnet_load
mxnet_collective = _core.mxnet_collective
