"""Gradients of JAX that are averaged over all ranks."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import horovod.jax as hvd  # noqa: E402

MODES = pytest.mark.parametrize("mode", [lambda it: it, jax.jit], ids=["eager", "jit"])


def loss(weights: Any, rate: float) -> Any:
    return (weights["a"] ** 2).sum() * rate + (weights["b"] * rate).sum()


def weights() -> dict[str, Any]:
    return {"a": jnp.arange(3.0), "b": jnp.ones(())}


def mean_rate() -> float:
    return (hvd.size() + 1) / 2


@MODES
def test_gradients_are_averaged_and_the_value_is_not(mode: Any) -> None:
    rate = hvd.rank() + 1.0
    value, gradients = mode(hvd.value_and_grad(loss))(weights(), rate)
    assert value == pytest.approx(6 * rate)
    np.testing.assert_allclose(gradients["a"], [0, 2 * mean_rate(), 4 * mean_rate()], rtol=1e-6)
    assert gradients["b"] == pytest.approx(mean_rate())


@MODES
@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({"op": hvd.Sum}, lambda: hvd.size()),
        ({"gradient_predivide_factor": 2.0}, lambda: 1),
        ({"compression": hvd.Compression.fp16}, lambda: 1),
        ({"groups": 2, "name": "mine"}, lambda: 1),
        ({"groups": 20}, lambda: 1),
    ],
)
def test_options(mode: Any, options: dict[str, Any], factor: Any) -> None:
    gradients = mode(hvd.grad(loss, **options))(weights(), hvd.rank() + 1.0)
    np.testing.assert_allclose(gradients["b"], mean_rate() * factor(), rtol=1e-3)
    assert gradients["a"].dtype == weights()["a"].dtype


def test_arguments_and_auxiliary_values() -> None:
    def both(x: Any, y: Any) -> Any:
        return x * y * (hvd.rank() + 1), {"rank": hvd.rank()}

    value, gradients = hvd.value_and_grad(both, (0, 1), has_aux=True)(2.0, 3.0)
    assert value == (6 * (hvd.rank() + 1), {"rank": hvd.rank()})
    assert [float(each) for each in gradients] == [3 * mean_rate(), 2 * mean_rate()]
    gradient, extra = hvd.grad(both, argnums=1, has_aux=True)(2.0, 3.0)
    assert float(gradient) == 2 * mean_rate() and extra == {"rank": hvd.rank()}


def test_integers_have_gradients_without_elements() -> None:
    gradient = hvd.grad(lambda it: it["x"] * it["n"], allow_int=True)
    result = gradient({"x": jnp.ones(()) * 2, "n": jnp.asarray(hvd.rank())})
    assert float(result["x"]) == (hvd.size() - 1) / 2
    assert result["n"].dtype == jax.dtypes.float0


def test_in_a_loop() -> None:
    def step(x: Any, _: Any) -> Any:
        return x - hvd.grad(lambda it: it**2 * (hvd.rank() + 1) / 2)(x), None

    result, _ = jax.jit(lambda x: jax.lax.scan(step, x, length=3))(1.0)
    assert float(result) == pytest.approx((1 - mean_rate()) ** 3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"op": hvd.Min}, "op=Average, Sum or Adasum"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "needs op=hvd.Average"),
        ({"groups": 0}, "number of groups above 0"),
        ({"groups": [[1]]}, "number of groups above 0"),
    ],
)
def test_errors(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        hvd.grad(loss, **options)
