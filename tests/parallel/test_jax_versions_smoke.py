"""What differs most between versions of JAX: tracing, translation, XLA's calls and their errors."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import horovod.jax as hvd  # noqa: E402
from horovod.common.exceptions import HorovodInternalError  # noqa: E402

DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "float16", "bfloat16", "float32"]
WAYS = pytest.mark.parametrize("way", [lambda function: function, jax.jit], ids=["eager", "jit"])


def total(value: float = 1.0) -> float:
    """The sum over the ranks of a value times (rank + 1)."""
    return value * sum(range(1, hvd.size() + 1))


def mine(shape: tuple[int, ...] = (4, 3), dtype: str = "float32") -> jax.Array:
    """This rank's array: its rank plus one everywhere."""
    return jnp.full(shape, hvd.rank() + 1, dtype)


@WAYS
def test_reductions(way) -> None:
    np.testing.assert_allclose(way(lambda x: hvd.allreduce(x, op=hvd.Sum))(mine()), total())
    average = way(hvd.allreduce)({"a": mine(), "b": mine((), "float32")})
    np.testing.assert_allclose(average["a"], total() / hvd.size())
    np.testing.assert_allclose(average["b"], total() / hvd.size())
    scattered = way(lambda x: hvd.reducescatter(x, op=hvd.Sum))(mine((hvd.size() * 2, 3)))
    assert scattered.shape == (2, 3)
    np.testing.assert_allclose(scattered, total())


@WAYS
def test_movements(way) -> None:
    size, ranks = hvd.size(), np.arange(1, hvd.size() + 1, dtype=np.float32)
    gathered = way(hvd.allgather)(mine((2, 3)))
    np.testing.assert_array_equal(gathered, np.repeat(ranks, 2)[:, None] * np.ones(3))
    np.testing.assert_array_equal(way(lambda x: hvd.broadcast(x, size - 1))(mine()), size)
    np.testing.assert_array_equal(way(hvd.alltoall)(mine((size,))), ranks)


@WAYS
@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(way, dtype: str) -> None:
    op = hvd.Max if dtype == "bool" else hvd.Sum
    result = way(lambda x: hvd.allreduce(x, op=op))(mine(dtype=dtype))
    assert result.dtype == dtype
    expected = 1 if dtype == "bool" else total()
    np.testing.assert_array_equal(np.asarray(result, "float32"), expected)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_wide_element_types(dtype: str) -> None:
    jax.config.update("jax_enable_x64", True)
    try:
        result = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))(mine(dtype=dtype))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, total())
    finally:
        jax.config.update("jax_enable_x64", False)


@WAYS
def test_gradients(way) -> None:
    gradient = way(jax.grad(lambda x: (hvd.allreduce(x, op=hvd.Sum) ** 2).sum()))(mine())
    np.testing.assert_allclose(gradient, 2 * total() * hvd.size())
    value, gradient = way(jax.value_and_grad(lambda x: hvd.allgather(x).sum()))(mine((2,)))
    np.testing.assert_allclose(value, 2 * total())
    np.testing.assert_allclose(gradient, 1)


@WAYS
def test_vmap(way) -> None:
    reduced = way(jax.vmap(lambda x: hvd.allreduce(x, op=hvd.Sum)))(mine((5, 3)))
    np.testing.assert_allclose(reduced, total())
    gathered = way(jax.vmap(hvd.allgather))(mine((5, 2)))
    assert gathered.shape == (5, 2 * hvd.size())


@WAYS
def test_loops_and_branches(way) -> None:
    def step(state, value):
        state = hvd.allreduce(state + value)
        return state, hvd.allreduce(value, op=hvd.Sum)

    def program(values):
        state, sums = jax.lax.scan(step, jnp.zeros(3), values)
        chosen = jax.lax.cond(sums.sum() > 0, hvd.allreduce, lambda x: x, state)
        return chosen, sums, jax.lax.fori_loop(0, 3, lambda _, x: hvd.allreduce(x), state)

    state, sums, looped = way(program)(mine((4, 3)))
    np.testing.assert_allclose(state, 4 * total() / hvd.size())
    np.testing.assert_allclose(looped, 4 * total() / hvd.size())
    np.testing.assert_allclose(sums, total())


def test_many_calls_in_one_program_keep_their_order() -> None:
    @jax.jit
    def program(arrays):
        return [hvd.allreduce(array * at, op=hvd.Sum) for at, array in enumerate(arrays)]

    for at, result in enumerate(program([mine((at + 1,)) for at in range(40)])):
        np.testing.assert_allclose(result, total(at))


def test_unused_results_and_large_arrays() -> None:
    @jax.jit
    def program(array):
        hvd.allreduce(array, name="unused")
        return hvd.allreduce(array, op=hvd.Sum)

    np.testing.assert_allclose(program(mine((1 << 20,))), total())


def test_a_program_waits_for_a_late_rank(several_ranks) -> None:
    """Longer than a thread of XLA is kept: ends by a future where XLA has them."""
    import time

    program = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum) * 2)
    np.testing.assert_allclose(program(mine()), 2 * total())
    if hvd.rank() == 0:
        time.sleep(0.2)
    np.testing.assert_allclose(program(mine()), 2 * total())


def test_errors_of_programs(several_ranks) -> None:
    program = jax.jit(lambda x: hvd.allreduce(x, name="differs"))
    with pytest.raises(Exception, match=r"(?i)mismatch|shape|differ"):
        jax.block_until_ready(program(mine((hvd.rank() + 1,))))
    with pytest.raises(HorovodInternalError):
        hvd.allreduce(mine((hvd.rank() + 1,)), name="differs too")
    np.testing.assert_allclose(program(mine()), total() / hvd.size())


def test_an_error_that_comes_late(several_ranks) -> None:
    import time

    program = jax.jit(lambda x: hvd.allreduce(x, name="late"))
    array = mine((hvd.rank() + 1,))
    if hvd.rank() == 0:
        time.sleep(0.2)
    with pytest.raises(Exception, match=r"(?i)mismatch|shape|differ"):
        jax.block_until_ready(program(array))


def test_donated_memory() -> None:
    program = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum), donate_argnums=0)
    array = mine((1024,))
    for _ in range(3):
        array = program(array) / hvd.size()
    assert np.isfinite(np.asarray(array)).all()


def test_several_devices_are_refused() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    if mesh.size == 1:
        pytest.skip("one device")
    spread = jax.device_put(
        mine((mesh.size,)), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    )
    with pytest.raises(NotImplementedError, match="devices"):
        jax.jit(hvd.allreduce)(spread)
    np.testing.assert_allclose(hvd.allreduce(spread, op=hvd.Sum), total())
