"""Batch normalization over all ranks: the same as flax's with the batches of all ranks in one."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from flax import linen, nnx  # noqa: E402

import horovod.jax as hvd  # noqa: E402

OPTIONS = pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_fast_variance": False},
        {"dtype": jnp.bfloat16},
        {"use_scale": False},
        {"use_bias": False, "epsilon": 0.1},
    ],
    ids=str,
)


def batches() -> tuple[np.ndarray, slice]:
    """All rows, and which of them are this rank's: rank r has 3 + r."""
    ends = np.cumsum([3 + rank for rank in range(hvd.size())])
    rows = np.random.default_rng(1).normal(3, 2, (ends[-1], 5, 4)).astype("float32")
    return rows, slice(ends[hvd.rank()] - 3 - hvd.rank(), ends[hvd.rank()])


def assert_close(result: Any, expected: Any, dtype: Any = None) -> None:
    tolerance = 1e-3 if dtype is None else 0.05
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    for it, other in zip(jax.tree.leaves(result), jax.tree.leaves(expected)):
        assert it.dtype == other.dtype
        np.testing.assert_allclose(
            np.asarray(it, "float32"), np.asarray(other, "float32"), tolerance, tolerance
        )


def run_linen(module: Any, rows: Any) -> Any:
    """Variables, outputs, new averages, and gradients of parameters and rows."""
    variables = module.init(jax.random.key(0), rows)

    def loss(params: Any, rows: Any) -> Any:
        given = {**variables, "params": params} if params else variables
        outputs, updates = module.apply(given, rows, mutable=["batch_stats"])
        return jnp.sum(outputs.astype("float32") ** 3), (outputs, updates)

    params = variables.get("params", {})
    (_, (outputs, updates)), gradients = jax.jit(
        jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    )(params, rows)
    return variables, outputs, updates, *gradients


@OPTIONS
def test_linen(options: dict[str, Any]) -> None:
    rows, mine = batches()
    options = {"use_running_average": False, "momentum": 0.8, **options}
    expected = run_linen(linen.BatchNorm(**options), rows)
    result = run_linen(hvd.linen.SyncBatchNorm(**options), rows[mine])
    dtype = options.get("dtype")
    for it, other in ((0, 0), (2, 2)):
        assert_close(result[it], expected[other], dtype)
    assert_close(result[1], expected[1][mine], dtype)
    if dtype is None:
        assert_close(hvd.allreduce(result[3], op=hvd.Sum), expected[3])
        assert_close(result[4], expected[4][mine])


@OPTIONS
@pytest.mark.parametrize("mode", [lambda it: it, nnx.jit], ids=["eager", "jit"])
def test_nnx(mode: Any, options: dict[str, Any]) -> None:
    rows, mine = batches()
    plain = nnx.BatchNorm(4, momentum=0.8, rngs=nnx.Rngs(0), **options)
    synchronized = hvd.nnx.SyncBatchNorm(4, momentum=0.8, rngs=nnx.Rngs(0), **options)
    expected = plain(rows)
    result = mode(lambda module, rows: module(rows))(synchronized, rows[mine])
    assert_close(result, expected[mine], options.get("dtype"))
    pairs = [nnx.to_pure_dict(nnx.state(module)) for module in (synchronized, plain)]
    assert_close(*pairs, options.get("dtype"))
    before = hvd.counters()
    for module in (plain, synchronized):
        module.eval()
    assert_close(synchronized(rows[mine]), plain(rows[mine]), options.get("dtype"))
    assert hvd.counters() == before


def test_nnx_gradients() -> None:
    rows, mine = batches()

    def gradients(module: Any, rows: Any) -> Any:
        found = nnx.grad(lambda module: jnp.sum(module(rows) ** 3))(module)
        return nnx.to_pure_dict(nnx.state(found))

    expected = gradients(nnx.BatchNorm(4, rngs=nnx.Rngs(0)), rows)
    result = gradients(hvd.nnx.SyncBatchNorm(4, rngs=nnx.Rngs(0)), rows[mine])
    assert_close(hvd.allreduce(result, op=hvd.Sum), expected)


def test_running_averages_and_masks_of_linen() -> None:
    rows, mine = batches()
    mask = rows[..., :1] > 2
    plain, synchronized = linen.BatchNorm(), hvd.linen.SyncBatchNorm()
    variables = plain.init(jax.random.key(0), rows, use_running_average=True)
    before = hvd.counters()
    result = synchronized.apply(variables, rows[mine], use_running_average=True)
    assert_close(result, plain.apply(variables, rows[mine], use_running_average=True))
    assert hvd.counters() == before
    options = {"use_running_average": False, "mutable": ["batch_stats"]}
    result, _ = synchronized.apply(variables, rows[mine], mask=mask[mine], **options)
    expected, _ = plain.apply(variables, rows, mask=mask, **options)
    assert_close(result, expected[mine])


def test_one_collective_per_direction() -> None:
    rows, mine = batches()

    def loss(rows: Any) -> Any:
        mean, variance = hvd.sync_batch_statistics(rows, (0, 1))
        return mean.sum() + variance.sum()

    text = str(jax.make_jaxpr(jax.grad(loss))(rows[mine]))
    assert text.count("horovod_collective[") == (2 if hvd.size() > 1 else 0)


def test_a_rank_without_rows() -> None:
    rows, _ = batches()
    mine = rows if hvd.rank() == 0 else rows[:0]
    mean, variance = hvd.sync_batch_statistics(mine, (0, 1))
    np.testing.assert_allclose(mean, rows.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(variance, rows.var((0, 1)), rtol=1e-4)
