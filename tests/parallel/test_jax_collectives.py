"""The collectives with JAX, at once and in compiled programs: values, types, trees, sets."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from frameworks import even_and_odd, share
from jax_modes import FLOATS, MOVED, REDUCED, Run, assert_same, everyones, mine, run

import horovod.jax as hvd

__all__ = ["run"]

SHAPES = ((), (17,), (5, 4, 3), (0, 2))


@pytest.mark.parametrize(
    ("op", "reduce"),
    [(hvd.Sum, np.sum), (hvd.Min, np.min), (hvd.Max, np.max), (hvd.Product, np.prod)],
    ids=["sum", "min", "max", "product"],
)
def test_reductions(run: Run, op: int, reduce: Any) -> None:
    arrays = {f"{dtype}{shape}": mine(shape, dtype) for dtype in REDUCED for shape in SHAPES}
    results = run(lambda tree: hvd.allreduce(tree, op=op), arrays)
    for dtype in REDUCED:
        for shape in SHAPES:
            result = results[f"{dtype}{shape}"]
            assert result.dtype == jnp.dtype(dtype)
            assert_same(result, reduce(everyones(shape, dtype), axis=0))


def test_average_is_the_default_and_truncates_integers(run: Run) -> None:
    results = run(hvd.allreduce, {dtype: mine((17, 3), dtype) for dtype in REDUCED})
    for dtype, result in results.items():
        mean = everyones((17, 3), dtype).sum(axis=0) / hvd.size()
        if dtype in FLOATS:
            assert_same(result, mean, 2e-2 if dtype == "bfloat16" else 2e-3)
        else:
            assert_same(result, np.trunc(mean))


def test_scaling(run: Run) -> None:
    scaled = {"op": hvd.Sum, "prescale_factor": 0.5, "postscale_factor": 4.0}
    result = run(lambda array: hvd.allreduce(array, **scaled), mine((17,)))
    assert_same(result, (everyones((17,)) * 0.5).sum(axis=0) * 4.0)


def test_adasum(run: Run) -> None:
    array = np.array([1.0, 2.0], np.float32)
    result = run(lambda array: hvd.allreduce(array, op=hvd.Adasum), jnp.asarray(array))
    assert_same(result, array, 1e-6)


def test_compression(run: Run) -> None:
    exact = mine((9,))
    result = run(lambda it: hvd.allreduce(it, op=hvd.Sum, compression=hvd.Compression.fp16), exact)
    assert result.dtype == exact.dtype
    assert_same(result, everyones((9,)).sum(axis=0))


def test_allgather(run: Run) -> None:
    results = run(hvd.allgather, {dtype: mine((3, 2), dtype) for dtype in MOVED})
    for dtype, result in results.items():
        assert result.dtype == jnp.dtype(dtype)
        assert_same(result, everyones((3, 2), dtype).reshape(-1, 2))


def test_ranks_may_gather_different_numbers_of_rows_outside_of_programs() -> None:
    rows = jnp.full((hvd.rank() + 1, 2), float(hvd.rank()))
    result = hvd.allgather(rows)
    expected = np.repeat(np.arange(hvd.size()), np.arange(hvd.size()) + 1)
    assert_same(result[:, 0], expected)


def test_broadcast(run: Run) -> None:
    root = hvd.size() - 1
    results = run(lambda it: hvd.broadcast(it, root), {each: mine((4, 2), each) for each in MOVED})
    for dtype, result in results.items():
        assert_same(result, everyones((4, 2), dtype)[root])


def test_alltoall(run: Run) -> None:
    rows = 2 * hvd.size()
    result = run(hvd.alltoall, mine((rows, 3)))
    mine_of_each = everyones((rows, 3))[:, 2 * hvd.rank() : 2 * hvd.rank() + 2]
    assert_same(result, mine_of_each.reshape(-1, 3))


def test_alltoall_with_splits() -> None:
    size, rank = hvd.size(), hvd.rank()
    splits = list(range(1, size + 1))
    rows = jnp.full((sum(splits),), float(rank))
    result, received = hvd.alltoall(rows, splits)
    assert received.tolist() == [rank + 1] * size
    assert_same(result, np.repeat(np.arange(size), rank + 1))


def test_reducescatter(run: Run) -> None:
    rows = 2 * hvd.size() + 1
    results = run(
        lambda tree: hvd.reducescatter(tree, op=hvd.Sum),
        {dtype: mine((rows, 2), dtype) for dtype in FLOATS},
    )
    for dtype, result in results.items():
        assert_same(result, everyones((rows, 2), dtype).sum(axis=0)[share(rows, hvd.rank())])


def test_groups_are_lists(run: Run) -> None:
    arrays = [mine((3,)), mine((4, 2), "int32")]
    sums = run(lambda *them: hvd.grouped_allreduce(them, op=hvd.Sum), *arrays)
    assert_same(sums[1], everyones((4, 2), "int32").sum(axis=0))
    gathered = run(lambda *them: hvd.grouped_allgather(them), *arrays)
    assert_same(gathered[0], everyones((3,)).reshape(-1))
    scattered = run(lambda *them: hvd.grouped_reducescatter(them, op=hvd.Sum), mine((4,)))
    assert_same(scattered[0], everyones((4,)).sum(axis=0)[share(4, hvd.rank())])
    assert hvd.grouped_allreduce([]) == []


@pytest.mark.dynamic_process_sets
@pytest.mark.usefixtures("several_ranks")
def test_process_sets(run: Run) -> None:
    sets = even_and_odd(hvd)
    own = sets[hvd.rank() % 2]
    ranks = own.ranks
    result = run(lambda it: hvd.allreduce(it, op=hvd.Sum, process_set=own), mine((5,)))
    assert_same(result, everyones((5,), ranks=ranks).sum(axis=0))
    gathered = run(lambda it: hvd.allgather(it, process_set=own), mine((5,)))
    assert_same(gathered, everyones((5,), ranks=ranks).reshape(-1))


def test_barrier_and_join() -> None:
    hvd.barrier()
    if hvd.rank() == 0:
        total = hvd.allreduce(jnp.ones(3), op=hvd.Sum, name="before joining")
        assert_same(total, np.ones(3))
    assert hvd.join() == 0


def test_many_calls_of_one_program_keep_their_order() -> None:
    """More than XLA's executor would run one after another, some of them in nested programs."""
    inner = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum))

    @jax.jit
    def outer(arrays: list[Any]) -> list[Any]:
        sums = [hvd.allreduce(array, op=hvd.Sum) for array in arrays]
        return [*sums, inner(sums[0])]

    arrays = [jnp.full(1000, float(place + hvd.rank())) for place in range(30)]
    for _ in range(3):
        *sums, nested = outer(arrays)
        for place, result in enumerate(sums):
            expected = sum(place + rank for rank in range(hvd.size()))
            assert_same(result, np.full(1000, float(expected)))
        assert_same(nested, np.asarray(sums[0]) * hvd.size())


def test_a_result_nobody_needs_on_this_rank() -> None:
    """Rank 0 alone uses it; the others take part all the same."""
    needs = hvd.rank() == 0
    program = jax.jit(
        lambda it: (hvd.allreduce(it, op=hvd.Sum, name="needed by one"), it)[not needs]
    )
    assert_same(program(mine((4,))), everyones((4,)).sum(axis=0) if needs else mine((4,)))


def test_branches_and_names() -> None:
    def halved(array: Any) -> Any:
        return hvd.allreduce(array, op=hvd.Sum, name="in a branch", postscale_factor=0.5)

    program = jax.jit(lambda it, yes: jax.lax.cond(yes, halved, lambda it: it, it))
    assert_same(program(mine((4,)), True), everyones((4,)).sum(axis=0) / 2)
    assert_same(program(mine((4,)), False), mine((4,)))


def test_another_compilation_keeps_the_names() -> None:
    """A rank that has compiled a program once more, for another batch, still meets the others."""
    program = jax.jit(lambda batch: hvd.allreduce(batch.sum(), op=hvd.Sum))
    assert float(program(jnp.ones(8))) == 8 * hvd.size()
    rows = 3 if hvd.rank() == 0 else 8
    expected = 3 + 8 * (hvd.size() - 1)
    assert float(program(jnp.ones(rows))) == expected


def test_calls_without_names_get_different_ones() -> None:
    def inner(array: Any) -> Any:
        return hvd.allreduce(array, op=hvd.Sum)

    text = jax.jit(lambda it: (inner(it), inner(it * 2))).lower(jnp.ones(3)).as_text()
    names = re.findall(r'name = "([^"]+)"', text)
    assert len(set(names)) == 2, names


def test_arrays_that_are_constants_of_a_program() -> None:
    """They are reduced in every run, not once when it is compiled."""
    array = mine((4,))
    program = jax.jit(lambda: hvd.allreduce(array, op=hvd.Sum))
    assert "horovod_collective" in program.lower().as_text()
    assert_same(program(), everyones((4,)).sum(axis=0))
