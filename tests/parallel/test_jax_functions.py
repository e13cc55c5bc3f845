"""Trees of JAX between ranks: whatever leaves they have, every rank gets the root's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import horovod.jax as hvd  # noqa: E402


def tree(number: int) -> dict[str, Any]:
    """A tree with all kinds of leaves, which depend on a number."""
    return {
        "weights": [jnp.full((3, 2), number, kind) for kind in ("float32", "bfloat16", "int32")],
        "bytes": jnp.full(2, number, "uint32"),
        "complex": jnp.full(2, number + 1j, "complex64"),
        "scalar": jnp.asarray(number),
        "empty": jnp.zeros((0, 3)),
        "numpy": np.full(3, number, "float64"),
        "kept type": np.float64(number),
        "key": jax.random.key(number),
        "keys": jax.random.split(jax.random.key(number), 3),
        "old key": jax.random.PRNGKey(number),
        "step": number,
        "name": f"step {number}",
        "nothing": None,
    }


def plain(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return (str(leaf.dtype), leaf.tolist()) if hasattr(leaf, "dtype") else leaf


@pytest.mark.parametrize("root", [0, -1])
def test_every_rank_gets_the_roots_tree(root: int) -> None:
    root %= hvd.size()
    result = hvd.broadcast_parameters(tree(hvd.rank() + 5), root_rank=root)
    expected = tree(root + 5)
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    assert jax.tree.map(plain, result) == jax.tree.map(plain, expected)
    assert isinstance(result["numpy"], np.ndarray) and isinstance(result["step"], int)
    jax.random.normal(result["key"])


def test_functions_stay_this_ranks() -> None:
    def mine() -> None: ...

    result = hvd.broadcast_parameters({"function": mine, "weights": jnp.ones(2) * hvd.rank()})
    assert result["function"] is mine and result["weights"].tolist() == [0, 0]


def test_arrays_stay_where_they_are() -> None:
    device = jax.devices()[-1]
    result = hvd.broadcast_parameters(jax.device_put(jnp.ones(2), device))
    assert result.committed and result.devices() == {device}


def test_optimizer_states() -> None:
    optax = pytest.importorskip("optax")
    assert hvd.broadcast_optimizer_state is hvd.broadcast_parameters
    parameters = {"w": jnp.ones(3) * hvd.rank()}
    optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=0.1 + hvd.rank())
    state = hvd.broadcast_optimizer_state(optimizer.init(parameters))
    assert state.hyperparams["learning_rate"] == pytest.approx(0.1)
    optimizer.update(parameters, state, parameters)


def test_train_states_and_modules_of_flax() -> None:
    linen = pytest.importorskip("flax.linen")
    optax = pytest.importorskip("optax")
    from flax import nnx
    from flax.training.train_state import TrainState

    model = linen.Dense(2)
    parameters = model.init(jax.random.key(hvd.rank()), jnp.ones((1, 3)))
    state = TrainState.create(apply_fn=model.apply, params=parameters, tx=optax.adam(0.1))
    state = hvd.broadcast_parameters(state)
    expected = model.init(jax.random.key(0), jnp.ones((1, 3)))
    assert jax.tree.map(plain, state.params) == jax.tree.map(plain, expected)
    module = nnx.Dropout(0.5, rngs=nnx.Rngs(hvd.rank()))
    nnx.update(module, hvd.broadcast_parameters(nnx.state(module)))
    assert len({str(each) for each in hvd.allgather_object(module(jnp.ones(9)).tolist())}) == 1


def test_trees_that_differ_are_reported(several_ranks: None) -> None:
    mine = {"a": jnp.ones(3)} if hvd.rank() != 1 else {"a": jnp.ones(4)}
    expected = r"differ at \['a'\]: here is float\d\d\[4\], on rank 0 is float\d\d\[3\]"
    if hvd.rank() == 1:
        with pytest.raises(ValueError, match=expected):
            hvd.broadcast_parameters(mine)
        hvd.shutdown()
    else:
        with pytest.raises(hvd.HorovodInternalError):
            hvd.broadcast_parameters(mine)


@pytest.mark.dynamic_process_sets
def test_process_sets(several_ranks: None) -> None:
    last = hvd.add_process_set([hvd.size() - 1])
    if last.included():
        root = hvd.size() - 1
        assert hvd.broadcast_parameters(hvd.rank(), root, process_set=last) == hvd.rank()


def test_objects() -> None:
    assert hvd.broadcast_object({"rank": hvd.rank()}) == {"rank": 0}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
