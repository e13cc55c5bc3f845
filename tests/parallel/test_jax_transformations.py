"""Collectives under `grad` and `vmap`: gradients as in the other frameworks, batches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from frameworks import share
from jax_modes import Run, assert_same, everyones, mine, run_at_once, run_compiled

import horovod.jax as hvd


@pytest.fixture(params=[run_at_once, run_compiled], ids=["eager", "jit"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param


def gradient(run: Run, function: Run, array: Any) -> Any:
    """Of the sum of the result, weighted by this rank's number plus one."""
    weight = hvd.rank() + 1.0
    return run(jax.grad(lambda it: (function(it) * weight).sum()), array)


def weights() -> np.ndarray:
    return np.arange(1.0, hvd.size() + 1)


def test_allreduce(run: Run) -> None:
    for op, reduced in ((hvd.Sum, weights().sum()), (hvd.Average, weights().mean())):
        result = gradient(run, lambda it, op=op: hvd.allreduce(it, op=op), mine((3,)))
        assert_same(result, np.full(3, reduced), 1e-6)
    scaled = gradient(
        run, lambda it: hvd.allreduce(it, op=hvd.Sum, prescale_factor=0.5), mine((3,))
    )
    assert_same(scaled, np.full(3, weights().sum() * 0.5), 1e-6)


def test_grouped_allreduce_with_integers_in_it(run: Run) -> None:
    def loss(tree: Any) -> Any:
        reduced = hvd.allreduce({**tree, "step": jnp.int32(1)}, op=hvd.Sum)
        return (reduced["a"] * 2).sum() + reduced["b"] * (hvd.rank() + 1.0)

    result = run(jax.grad(loss), {"a": mine((3,)), "b": jnp.float32(1)})
    assert_same(result["a"], np.full(3, 2.0 * hvd.size()))
    assert_same(result["b"], weights().sum())


def test_allgather(run: Run) -> None:
    result = gradient(run, hvd.allgather, mine((3, 2)))
    assert_same(result, np.full((3, 2), weights().mean()), 1e-6)


def test_allgather_of_different_numbers_of_rows() -> None:
    rows = jnp.ones((hvd.rank() + 1, 2))
    result = gradient(run_at_once, hvd.allgather, rows)
    assert_same(result, np.full((hvd.rank() + 1, 2), weights().mean()), 1e-6)


def test_broadcast(run: Run) -> None:
    result = gradient(run, lambda it: hvd.broadcast(it, 0), mine((3,)))
    assert_same(result, np.full(3, weights().mean() if hvd.rank() == 0 else 0.0), 1e-6)


def test_alltoall(run: Run) -> None:
    result = gradient(run, hvd.alltoall, mine((2 * hvd.size(),)))
    assert_same(result, np.repeat(weights(), 2))


def test_alltoall_with_splits() -> None:
    splits = list(range(1, hvd.size() + 1))
    rows = jnp.ones(sum(splits))
    result = gradient(run_at_once, lambda it: hvd.alltoall(it, splits)[0], rows)
    assert_same(result, np.repeat(weights(), splits))


def test_reducescatter(run: Run) -> None:
    rows = 2 * hvd.size() + 1
    owners = np.concatenate(
        [np.full(len(range(rows)[share(rows, rank)]), rank + 1.0) for rank in range(hvd.size())]
    )
    summed = gradient(run, lambda it: hvd.reducescatter(it, op=hvd.Sum), mine((rows,)))
    assert_same(summed, owners * hvd.size())
    assert_same(gradient(run, hvd.reducescatter, mine((rows,))), owners)


def test_gradient_of_a_gradient(run: Run) -> None:
    def loss(it: Any) -> Any:
        return (hvd.allreduce(it) ** 3).sum()

    result = run(jax.grad(lambda it: jax.grad(loss)(it).sum()), jnp.ones(2))
    assert_same(result, np.full(2, 6.0), 1e-6)


def test_through_a_loop_and_a_checkpoint(run: Run) -> None:
    @jax.checkpoint
    def step(carry: Any, _: Any) -> tuple[Any, None]:
        return hvd.allreduce(carry, op=hvd.Average) * 2, None

    def loss(it: Any) -> Any:
        return jax.lax.scan(step, it, length=3)[0].sum()

    assert_same(run(jax.grad(loss), jnp.ones(2)), np.full(2, 8.0))


def test_vmap(run: Run) -> None:
    batch = mine((2, 3, 4))
    everyone = everyones((2, 3, 4))
    for axis in (0, 1, 2):
        result = run(jax.vmap(lambda it: hvd.allreduce(it, op=hvd.Sum), in_axes=axis), batch)
        assert_same(result, np.moveaxis(everyone.sum(axis=0), axis, 0))
        gathered = run(jax.vmap(hvd.allgather, in_axes=axis), batch)
        each = [np.moveaxis(one, axis, 0) for one in everyone]
        assert_same(gathered, np.concatenate(each, axis=1))
    scattered = run(jax.vmap(lambda it: hvd.reducescatter(it, op=hvd.Sum)), batch)
    assert_same(scattered, everyone.sum(axis=0)[:, share(3, hvd.rank())])
    spread = run(jax.vmap(lambda it: hvd.broadcast(it, 0), in_axes=1, out_axes=1), batch)
    assert_same(spread, everyone[0])


def test_vmap_of_a_gradient(run: Run) -> None:
    loss = jax.grad(lambda it: hvd.allreduce(it, op=hvd.Sum).sum())
    assert_same(run(jax.vmap(loss), mine((4, 3))), np.full((4, 3), float(hvd.size())))


def test_vmap_where_it_has_no_meaning(run: Run) -> None:
    with pytest.raises(NotImplementedError, match="Adasum under vmap"):
        run(jax.vmap(lambda it: hvd.allreduce(it, op=hvd.Adasum)), jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="allgather under vmap needs a dimension"):
        run(jax.vmap(hvd.allgather), jnp.ones(3))


def test_forward_mode(run: Run) -> None:
    def tangent(function: Run, array: Any) -> Any:
        return run(lambda it: jax.jvp(function, (it,), (it * 2,))[1], array)

    assert_same(tangent(hvd.allreduce, mine((3,))), everyones((3,)).mean(axis=0) * 2, 1e-6)
    assert_same(tangent(hvd.allgather, mine((3,))), everyones((3,)).reshape(-1) * 2)
    with pytest.raises(NotImplementedError, match="forwards with Average and Sum only"):
        tangent(lambda it: hvd.allreduce(it, op=hvd.Max), mine((3,)))
    jacobian = run(jax.jacfwd(lambda it: hvd.allgather(it)[:3]), jnp.ones(3))
    assert_same(jacobian, np.eye(3))
