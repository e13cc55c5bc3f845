"""The leaves of a tree as arrays of NumPy that every transport can carry, and back.

JAX has types that the engine has not: keys of random numbers, uint32, complex and short floats.
They travel as their bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from horovod.common.collectives import dtype_code
from horovod.jax.host import to_numpy

# Travel as objects; anything else that is not an array, a function for example, stays as it is.
SCALARS = (bool, int, float, complex, str, bytes, np.generic)


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of JAX or NumPy with elements that can be copied."""
    if isinstance(leaf, jax.Array):
        return True
    return isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject


def is_key(leaf: Any) -> bool:
    """Whether a leaf holds keys made by `jax.random.key`."""
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def values_of(leaf: Any) -> np.ndarray[Any, Any]:
    """The values of an array; those on the host are not copied."""
    return to_numpy(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def maker_of(leaf: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
    """Makes arrays of the same kind, in the same place, with other values. Does not keep `leaf`."""
    if isinstance(leaf, np.ndarray):
        return lambda values: values
    place = leaf.sharding if leaf.committed else None
    kind = jax.random.key_impl(leaf) if is_key(leaf) else None

    def make(values: np.ndarray[Any, Any]) -> Any:
        if kind is not None:
            values = jax.random.wrap_key_data(jnp.asarray(values), impl=kind)
        return jnp.asarray(values) if place is None else jax.device_put(values, place)

    return make


def as_known_type(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same memory in a type that the engine knows."""
    try:
        dtype_code(values.dtype.name)
    except (TypeError, ValueError):
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return values
