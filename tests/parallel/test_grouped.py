"""Groups: several tensors under one handle, started and ended together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frameworks import Framework, assert_close, assert_equal, everyones, mine, share, values

from horovod.common.exceptions import HorovodInternalError

SHAPES = [(17,), (5, 3), (2, 3, 4)]


def group(framework: Framework, dtype: str = "float32") -> list[Any]:
    return [mine(framework, shape, dtype) for shape in SHAPES]


def test_allreduce(framework: Framework) -> None:
    hvd = framework.hvd
    for dtype in framework.scalable:
        for op, reduce in [(hvd.Sum, np.sum), (hvd.Max, np.max), (hvd.Product, np.prod)]:
            results = hvd.grouped_allreduce(group(framework, dtype), op=op)
            assert isinstance(results, list)
            for result, shape in zip(results, SHAPES):
                assert_equal(framework, result, reduce(everyones(shape, dtype), axis=0), dtype)


def test_average_is_the_default(framework: Framework) -> None:
    hvd = framework.hvd
    for result, shape in zip(hvd.grouped_allreduce(group(framework)), SHAPES):
        assert_close(framework, result, everyones(shape).sum(axis=0) / hvd.size(), "float32")


def test_allreduce_scaling(framework: Framework) -> None:
    hvd = framework.hvd
    results = hvd.grouped_allreduce(
        group(framework), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0
    )
    for result, shape in zip(results, SHAPES):
        assert_equal(framework, result, everyones(shape).sum(axis=0) * 2)


def test_allreduce_in_place(framework: Framework) -> None:
    hvd = framework.hvd
    for _ in range(3):
        tensors = group(framework)
        results = hvd.grouped_allreduce_(tensors, name="again", op=hvd.Sum)
        for result, tensor, shape in zip(results, tensors, SHAPES):
            assert result is tensor
            assert_equal(framework, tensor, everyones(shape).sum(axis=0))


def test_types_can_be_mixed(framework: Framework) -> None:
    hvd = framework.hvd
    cases = [(dtype, (n + 1, 2)) for n, dtype in enumerate(framework.dtypes)]
    results = hvd.grouped_allreduce(
        [mine(framework, shape, dtype) for dtype, shape in cases], op=hvd.Max
    )
    for result, (dtype, shape) in zip(results, cases):
        assert_equal(framework, result, everyones(shape, dtype).max(axis=0), dtype)
    results = hvd.grouped_allgather([mine(framework, shape, dtype) for dtype, shape in cases])
    for result, (dtype, shape) in zip(results, cases):
        assert_equal(framework, result, np.concatenate(everyones(shape, dtype)), dtype)


def test_allgather_of_different_numbers_of_rows(framework: Framework) -> None:
    hvd = framework.hvd
    results = hvd.grouped_allgather([mine(framework, (hvd.rank() + n, 3)) for n in range(3)])
    for n, result in enumerate(results):
        parts = [values(rank, (rank + n, 3)) for rank in range(hvd.size())]
        assert_equal(framework, result, np.concatenate(parts))


def test_reducescatter(framework: Framework) -> None:
    hvd = framework.hvd
    for op, factor in [(hvd.Sum, 1), (hvd.Average, hvd.size())]:
        results = hvd.grouped_reducescatter(group(framework), op=op, prescale_factor=0.5)
        for result, shape in zip(results, SHAPES):
            total = everyones(shape).sum(axis=0)[share(shape[0], hvd.rank())]
            assert_close(framework, result, total * 0.5 / factor, "float32")


def test_one_handle_for_the_group(framework: Framework) -> None:
    hvd = framework.hvd
    handles = [
        hvd.grouped_allreduce_async(group(framework), name="a", op=hvd.Sum),
        hvd.grouped_allgather_async(group(framework), name="a"),
        hvd.grouped_reducescatter_async(group(framework), name="a", op=hvd.Sum),
        hvd.grouped_allreduce_async_(group(framework), op=hvd.Sum),
    ]
    assert all(isinstance(handle, int) for handle in handles)
    assert len(set(handles)) == len(handles)
    for handle in reversed(handles):
        assert hvd.poll(handle) in (False, True)
        assert len(hvd.synchronize(handle)) == len(SHAPES)
        assert hvd.synchronize(handle) is None
        with pytest.raises(ValueError, match="handle"):
            hvd.poll(handle)


@pytest.mark.usefixtures("several_ranks")
def test_a_group_waits_for_every_rank(framework: Framework) -> None:
    hvd = framework.hvd
    if hvd.rank() != 0:
        hvd.barrier()
    handle = hvd.grouped_allreduce_async(group(framework), name="a", op=hvd.Sum)
    if hvd.rank() == 0:
        assert not hvd.poll(handle)
        hvd.barrier()
    for result, shape in zip(hvd.synchronize(handle), SHAPES):
        assert_equal(framework, result, everyones(shape).sum(axis=0))


def test_many_groups_in_different_orders(framework: Framework) -> None:
    hvd = framework.hvd
    order = np.random.default_rng(hvd.rank()).permutation(10)
    handles = {
        int(n): hvd.grouped_allreduce_async(
            [mine(framework, (int(n) + 1,)), mine(framework, (2, 3))], name=str(n), op=hvd.Sum
        )
        for n in order
    }
    for n in range(10):
        first, second = hvd.synchronize(handles[n])
        assert_equal(framework, first, everyones((n + 1,)).sum(axis=0))
        assert_equal(framework, second, everyones((2, 3)).sum(axis=0))


@pytest.mark.usefixtures("several_ranks")
def test_nothing_of_a_failed_group_is_in_flight(framework: Framework) -> None:
    hvd = framework.hvd
    for wrong in range(3):
        rows = [4 + (hvd.rank() if n == wrong else 0) for n in range(3)]
        tensors = [mine(framework, (n,)) for n in rows]
        handle = hvd.grouped_allreduce_async(tensors, name="a", op=hvd.Sum)
        with pytest.raises(HorovodInternalError):
            hvd.synchronize(handle)
        assert hvd.synchronize(handle) is None
        for result, shape in zip(
            hvd.grouped_allreduce(group(framework), name="a", op=hvd.Sum), SHAPES
        ):
            assert_equal(framework, result, everyones(shape).sum(axis=0))


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "allreduce": lambda hvd, tensors: hvd.grouped_allreduce(tensors),
    "allreduce in place": lambda hvd, tensors: hvd.grouped_allreduce_(tensors),
    "allgather": lambda hvd, tensors: hvd.grouped_allgather(tensors),
    "reducescatter": lambda hvd, tensors: hvd.grouped_reducescatter(tensors),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_a_group_needs_tensors(framework: Framework, operation: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(ValueError, match="at least one tensor"):
        operation(framework.hvd, [])
    tensor, dtype = framework.unsupported()
    with pytest.raises(ValueError, match=f"type not supported: {dtype}"):
        operation(framework.hvd, [mine(framework, (3,)), tensor])
    assert len(operation(framework.hvd, [mine(framework, (3,))])) == 1


def test_a_scalar_cannot_be_scattered(framework: Framework) -> None:
    with pytest.raises(ValueError, match="scalar"):
        framework.hvd.grouped_reducescatter([mine(framework, (4,)), mine(framework, ())])
