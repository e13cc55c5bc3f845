"""The ways to run something with JAX: at once, compiled, compiled in a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from frameworks import everyones, values

import horovod.jax as hvd

# What JAX raises for whatever fails in a program; before 0.4.36 it has no name in jax.errors.
ProgramError = getattr(jax.errors, "JaxRuntimeError", RuntimeError)

# As other frameworks have them; programs that do not ask for them compute with 32 bits.
jax.config.update("jax_enable_x64", True)

Run = Callable[..., Any]

REDUCED = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
MOVED = (*REDUCED, "uint16", "int16", "bool")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def run_at_once(function: Run, *arrays: Any) -> Any:
    return function(*arrays)


def run_compiled(function: Run, *arrays: Any) -> Any:
    return jax.jit(function)(*arrays)


def run_in_loop(function: Run, *arrays: Any) -> Any:
    """Twice, in the body of a loop; the last result counts."""

    def body(carry: int, _: Any) -> tuple[int, Any]:
        return carry, function(*arrays)

    _, results = jax.jit(lambda: jax.lax.scan(body, 0, length=2))()
    return jax.tree.map(lambda result: result[-1], results)


MODES = {"eager": run_at_once, "jit": run_compiled, "scan": run_in_loop}


@pytest.fixture(params=MODES)
def run(request: pytest.FixtureRequest) -> Run:
    return MODES[request.param]


def mine(shape: tuple[int, ...], dtype: str = "float32") -> jax.Array:
    """What this rank contributes."""
    return jnp.asarray(values(hvd.rank(), shape, dtype), dtype)


def assert_same(result: Any, expected: Any, tolerance: float = 0.0) -> None:
    array = np.asarray(result).astype("float64")
    expected = np.asarray(expected).astype("float64")
    assert array.shape == expected.shape
    np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance)


__all__ = [
    "FLOATS",
    "MOVED",
    "REDUCED",
    "ProgramError",
    "Run",
    "assert_same",
    "everyones",
    "mine",
    "run",
]
