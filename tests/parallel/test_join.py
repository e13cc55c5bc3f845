"""Join: ranks without data let the others go on, until all have joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frameworks import Framework, assert_close, assert_equal, everyones, mine

from horovod.common.exceptions import HorovodInternalError

SHAPES = [(17, 3), (5,)]


def join_and_compare(hvd: Any) -> int:
    """Joins; every rank must have been told the same."""
    last = hvd.join()
    assert isinstance(last, int)
    assert hvd.allgather_object(last) == [last] * hvd.size()
    return last


def reduce_two(framework: Framework, op: int) -> list[Any]:
    """Two tensors in flight at a time, so that they can travel together."""
    handles = [
        framework.hvd.allreduce_async(mine(framework, shape), name=str(shape), op=op)
        for shape in SHAPES
    ]
    return [framework.hvd.synchronize(handle) for handle in handles]


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.parametrize("warm", [False, True], ids=["cold cache", "warm cache"])
def test_join_for_each_first_joiner(framework: Framework, warm: bool) -> None:
    hvd = framework.hvd
    for first in range(hvd.size()):
        if warm:
            reduce_two(framework, hvd.Sum)
        if hvd.rank() != first:
            others = [rank for rank in range(hvd.size()) if rank != first]
            for _ in range(3):
                for result, shape in zip(reduce_two(framework, hvd.Sum), SHAPES):
                    assert_equal(framework, result, everyones(shape, ranks=others).sum(axis=0))
        assert join_and_compare(hvd) != first


@pytest.mark.usefixtures("several_ranks")
def test_average_divides_by_all_ranks(framework: Framework) -> None:
    hvd = framework.hvd
    for first in range(hvd.size()):
        others = [rank for rank in range(hvd.size()) if rank != first]
        if hvd.rank() != first:
            for dtype in ("float32", "float64", "int32"):
                result = hvd.allreduce(mine(framework, (17,), dtype), name=dtype)
                total = everyones((17,), dtype, others).sum(axis=0)
                if dtype == "int32":
                    assert_equal(framework, result, np.trunc(total * (1 / hvd.size())), dtype)
                else:
                    assert_close(framework, result, total / hvd.size(), dtype)
        assert join_and_compare(hvd) != first


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.parametrize(
    ("op", "reduce"), [("Min", np.min), ("Max", np.max), ("Product", np.prod)], ids=str
)
def test_only_contributors_count(framework: Framework, op: str, reduce: np.ufunc) -> None:
    hvd = framework.hvd
    first = hvd.size() - 1
    if hvd.rank() != first:
        for dtype in framework.dtypes:
            result = hvd.allreduce(mine(framework, (17,), dtype), name=dtype, op=getattr(hvd, op))
            expected = reduce(everyones((17,), dtype, range(first)), axis=0)
            assert_equal(framework, result, expected, dtype)
    assert join_and_compare(hvd) != first


def test_ranks_run_out_of_data_one_after_the_other(framework: Framework) -> None:
    hvd = framework.hvd
    for step in range(hvd.rank() + 1):
        result = hvd.allreduce(mine(framework, (17,)), name="step", op=hvd.Sum)
        with_data = range(step, hvd.size())
        assert_equal(framework, result, everyones((17,), ranks=with_data).sum(axis=0))
    assert join_and_compare(hvd) == hvd.size() - 1


@pytest.mark.usefixtures("several_ranks")
def test_groups_go_on(framework: Framework) -> None:
    hvd = framework.hvd
    if hvd.rank() != 0:
        tensors = [mine(framework, shape) for shape in SHAPES]
        for result, shape in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum), SHAPES):
            others = range(1, hvd.size())
            assert_equal(framework, result, everyones(shape, ranks=others).sum(axis=0))
    assert join_and_compare(hvd) != 0


def test_join_again_and_again(framework: Framework) -> None:
    hvd = framework.hvd
    for _ in range(10):
        assert 0 <= join_and_compare(hvd) < hvd.size()
        for result, shape in zip(reduce_two(framework, hvd.Sum), SHAPES):
            assert_equal(framework, result, everyones(shape).sum(axis=0))


NEEDS_EVERYBODY: dict[str, Callable[[Framework, Any], Any]] = {
    "allgather": lambda f, hvd: hvd.allgather(mine(f, (4,)), name="x"),
    "grouped allgather": lambda f, hvd: hvd.grouped_allgather([mine(f, (4,))] * 2, name="x"),
    "broadcast": lambda f, hvd: hvd.broadcast(mine(f, (4,)), 1, name="x"),
    "broadcast of the joined rank": lambda f, hvd: hvd.broadcast(mine(f, (4,)), 0, name="x"),
    "alltoall": lambda f, hvd: hvd.alltoall(mine(f, (hvd.size(),)), name="x"),
    "reducescatter": lambda f, hvd: hvd.reducescatter(mine(f, (4,)), name="x"),
    "barrier": lambda f, hvd: hvd.barrier(),
}


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.parametrize("warm", [False, True], ids=["cold cache", "warm cache"])
@pytest.mark.parametrize("call", NEEDS_EVERYBODY.values(), ids=NEEDS_EVERYBODY.keys())
def test_what_needs_everybody_fails_and_all_can_join(
    framework: Framework, call: Callable[[Framework, Any], Any], warm: bool
) -> None:
    hvd = framework.hvd
    if warm:
        call(framework, hvd)
    if hvd.rank() != 0:
        with pytest.raises(HorovodInternalError, match="joined"):
            call(framework, hvd)
        others = range(1, hvd.size())
        result = hvd.allreduce(mine(framework, (17,)), name="after", op=hvd.Sum)
        assert_equal(framework, result, everyones((17,), ranks=others).sum(axis=0))
    assert join_and_compare(hvd) != 0
    call(framework, hvd)


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.dynamic_process_sets
def test_sets_without_the_joined_rank_go_on(framework: Framework) -> None:
    hvd = framework.hvd
    others = hvd.add_process_set(range(1, hvd.size()))
    if hvd.rank() != 0:
        result = hvd.allgather(mine(framework, (2, 3)), name="x", process_set=others)
        expected = np.concatenate(everyones((2, 3), ranks=others.ranks))
        assert_equal(framework, result, expected)
    assert 0 <= join_and_compare(hvd) < hvd.size()
