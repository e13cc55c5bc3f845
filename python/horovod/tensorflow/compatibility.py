"""Names of upstream Horovod's TensorFlow modules that programs use, kept for compatibility.
Nothing in this project needs them, and new code should not use them.

Programs find them in `horovod.tensorflow`, `.util`, `.mpi_ops` and `.gradient_aggregation`, as
upstream has them. The classes `_DistributedOptimizer`, `_DistributedAdasumOptimizer` and
`_DistributedGradientTape` are the real ones, in `optimizer.py` and `tape.py`.
`tests/single/upstream_names.py` lists all names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

_IS_TF2 = True


def _executing_eagerly() -> bool:
    return bool(tf.executing_eagerly())


def _make_subgraph(function: Callable[..., Any]) -> Any:
    return tf.function(function)


def _cache(function: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers results by the arguments, separately for graphs and outside of them."""

    @functools.cache
    def remembered(is_eager: bool, *args: Any) -> Any:
        return function(*args)

    @functools.wraps(function)
    def remembering(*args: Any) -> Any:
        return remembered(_executing_eagerly(), *args)

    return remembering


def apply_op_to_not_none_tensors(
    tensor_op: Callable[..., Any], tensors: Iterable[Any], *args: Any
) -> list[Any]:
    """Applies a function to each tensor; None stays None."""
    return [None if tensor is None else tensor_op(tensor, *args) for tensor in tensors]


def get_not_none_from_list(tensor_list: Iterable[Any]) -> list[Any]:
    """Leaves out what is None."""
    return [tensor for tensor in tensor_list if tensor is not None]
