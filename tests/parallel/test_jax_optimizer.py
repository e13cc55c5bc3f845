"""Optimizers of optax that use the gradients of all ranks."""

from __future__ import annotations

import sys
from typing import Any

import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import horovod.jax as hvd  # noqa: E402

MODES = pytest.mark.parametrize("mode", [lambda it: it, jax.jit], ids=["eager", "jit"])


def parameters() -> dict[str, Any]:
    return {"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), None]}


def gradients(rank: int, number: int) -> dict[str, Any]:
    random = np.random.default_rng([rank, number])
    return jax.tree.map(
        lambda it: jnp.asarray(random.normal(size=it.shape), "float32"), parameters()
    )


def mean(number: int, combine: Any = np.mean) -> Any:
    everyones = [gradients(rank, number) for rank in range(hvd.size())]
    return jax.tree.map(lambda *each: combine(each, axis=0), *everyones)


def train(optimizer: Any, given: list[Any], mode: Any = jax.jit) -> Any:
    """The parameters after a step with each of the gradients."""
    params = parameters()
    state = optimizer.init(params)

    def step(params: Any, state: Any, each: Any) -> Any:
        updates, state = optimizer.update(each, state, params)
        return optax.apply_updates(params, updates), state

    step = mode(step)
    for each in given:
        params, state = step(params, state, each)
    return params


def assert_same(result: Any, expected: Any, tolerance: float = 1e-5) -> None:
    jax.tree.map(
        lambda it, other: np.testing.assert_allclose(it, other, tolerance, tolerance),
        result,
        expected,
    )


@MODES
@pytest.mark.parametrize("wrapped", [optax.sgd(0.1, momentum=0.9), optax.adamw(0.1)])
def test_as_one_process_with_the_mean(mode: Any, wrapped: Any) -> None:
    optimizer = hvd.DistributedOptimizer(wrapped)
    assert isinstance(optimizer, optax.GradientTransformationExtraArgs)
    result = train(optimizer, [gradients(hvd.rank(), number) for number in range(4)], mode)
    assert_same(result, train(wrapped, [mean(number) for number in range(4)]))


@pytest.mark.parametrize(
    ("options", "combine", "tolerance"),
    [
        ({"op": hvd.Sum}, np.sum, 1e-5),
        ({"gradient_predivide_factor": 4.0}, np.mean, 1e-5),
        ({"compression": hvd.Compression.fp16}, np.mean, 1e-3),
        ({"groups": 2, "name": "mine"}, np.mean, 1e-5),
    ],
)
def test_options(options: dict[str, Any], combine: Any, tolerance: float) -> None:
    optimizer = hvd.DistributedGradientTransformation(optax.sgd(0.1), **options)
    result = train(optimizer, [gradients(hvd.rank(), number) for number in range(2)])
    assert_same(result, train(optax.sgd(0.1), [mean(n, combine) for n in range(2)]), tolerance)


@MODES
@pytest.mark.parametrize("average", [False, True])
def test_several_passes_per_step(mode: Any, average: bool) -> None:
    optimizer = hvd.DistributedOptimizer(
        optax.adam(0.1), backward_passes_per_step=3, average_aggregated_gradients=average
    )
    result = train(optimizer, [gradients(hvd.rank(), number) for number in range(7)], mode)
    sums = [
        jax.tree.map(lambda *each: sum(each) / (3 if average else 1), *map(mean, numbers))
        for numbers in (range(3), range(3, 6))
    ]
    assert_same(result, train(optax.adam(0.1), sums))


@MODES
def test_updates_are_zero_between_steps(mode: Any) -> None:
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), backward_passes_per_step=2)
    state = optimizer.init(parameters())
    update = mode(optimizer.update)
    before = hvd.counters()
    updates, state = update(gradients(hvd.rank(), 0), state)
    assert all(not each.any() for each in jax.tree.leaves(updates))
    assert int(state.passes) == 1 and hvd.counters() == before
    updates, state = update(gradients(hvd.rank(), 1), state)
    assert all(each.any() for each in jax.tree.leaves(updates)) and int(state.passes) == 0


def test_the_state_is_the_wrapped_optimizers() -> None:
    wrapped = optax.adam(0.1)
    state = hvd.DistributedOptimizer(wrapped).init(parameters())
    assert jax.tree.structure(state) == jax.tree.structure(wrapped.init(parameters()))


@MODES
def test_adasum_combines_updates(mode: Any) -> None:
    """Equal updates stay as they are, and those at right angles are added."""
    if hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a number of ranks that is a power of two")
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), op=hvd.Adasum)
    own = jnp.zeros(hvd.size()).at[hvd.rank()].set(2.0)
    mine = {"equal": jnp.ones(3), "own": own}
    updates, _ = mode(optimizer.update)(mine, optimizer.init(mine))
    assert_same(updates, {"equal": -np.ones(3), "own": -2 * np.ones(hvd.size())})


def test_arguments_for_the_wrapped_optimizer() -> None:
    def update(updates: Any, state: Any, params: Any = None, *, value: Any) -> Any:
        return jax.tree.map(lambda it: it * value, updates), state

    wrapped = optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)
    for passes in (1, 2):
        optimizer = hvd.DistributedOptimizer(wrapped, backward_passes_per_step=passes)
        state = optimizer.init(jnp.ones(2))
        for _ in range(passes):
            updates, state = jax.jit(optimizer.update)(jnp.ones(2), state, value=3.0)
        assert updates.tolist() == [3 * passes] * 2


@pytest.mark.dynamic_process_sets
def test_ranks_outside_of_the_process_set_keep_their_gradients(several_ranks: None) -> None:
    first = hvd.add_process_set([0])
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), process_set=first)
    updates, _ = optimizer.update(jnp.ones(1) * hvd.rank(), optimizer.init(jnp.ones(1)))
    assert updates.tolist() == [-hvd.rank()]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"op": hvd.Max}, "op=Average, Sum or Adasum"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "needs op=hvd.Average"),
        ({"backward_passes_per_step": 0}, "must be above 0, not 0"),
        ({"op": hvd.Adasum, "average_aggregated_gradients": True}, "not possible with op"),
        ({"groups": -1}, "number of groups above 0"),
        ({"optimizer": "adam"}, "expected an optimizer of optax, not str"),
    ],
)
def test_errors(options: dict[str, Any], text: str) -> None:
    if options.get("op") == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a number of ranks that is a power of two")
    with pytest.raises(ValueError, match=text):
        hvd.DistributedOptimizer(**{"optimizer": optax.sgd(0.1), **options})


def test_optax_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hidden:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name == "optax":
                raise ModuleNotFoundError("No module named 'optax'", name="optax")

    monkeypatch.delitem(sys.modules, "optax")
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with pytest.raises(ImportError, match="pip install optax"):
        hvd.DistributedOptimizer(None)
