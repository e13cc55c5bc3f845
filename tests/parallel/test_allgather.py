"""Allgather: every type, equal and different numbers of rows, many at once."""

from __future__ import annotations

import numpy as np
import pytest
from frameworks import SHAPES, Framework, assert_equal, everyones, mine, values

from horovod.common.exceptions import HorovodInternalError


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equal_shapes(framework: Framework, shape: tuple[int, ...]) -> None:
    for dtype in framework.dtypes:
        result = framework.hvd.allgather(mine(framework, shape, dtype))
        assert_equal(framework, result, np.concatenate(everyones(shape, dtype)), dtype)


def test_each_rank_has_another_number_of_rows(framework: Framework) -> None:
    hvd = framework.hvd
    for dtype in framework.dtypes:
        result = hvd.allgather(mine(framework, (2 * hvd.rank() + 1, 3), dtype))
        parts = [values(rank, (2 * rank + 1, 3), dtype) for rank in range(hvd.size())]
        assert_equal(framework, result, np.concatenate(parts), dtype)


@pytest.mark.usefixtures("several_ranks")
def test_only_the_last_rank_has_rows(framework: Framework) -> None:
    hvd = framework.hvd
    last = hvd.size() - 1
    result = hvd.allgather(mine(framework, (4 if hvd.rank() == last else 0, 3)))
    assert_equal(framework, result, values(last, (4, 3)))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)], ids=str)
def test_nobody_has_anything(framework: Framework, shape: tuple[int, ...]) -> None:
    result = framework.hvd.allgather(mine(framework, shape))
    assert_equal(framework, result, np.concatenate(everyones(shape)))


def test_many_at_once(framework: Framework) -> None:
    hvd = framework.hvd
    handles = [
        hvd.allgather_async(mine(framework, (hvd.rank() + rows, 2)), name=str(rows))
        for rows in range(30)
    ]
    for rows, handle in enumerate(handles):
        parts = [values(rank, (rank + rows, 2)) for rank in range(hvd.size())]
        assert_equal(framework, hvd.synchronize(handle), np.concatenate(parts))


def test_a_name_is_used_again_with_other_rows(framework: Framework) -> None:
    hvd = framework.hvd
    for rows in [3, 3, 5, 0, 5, 3]:
        result = hvd.allgather(mine(framework, (hvd.rank() + rows, 2)), name="again")
        parts = [values(rank, (rank + rows, 2)) for rank in range(hvd.size())]
        assert_equal(framework, result, np.concatenate(parts))


def test_the_result_outlives_the_engine(framework: Framework) -> None:
    hvd = framework.hvd
    expected = np.concatenate(everyones((17, 3)))
    result = hvd.allgather(mine(framework, (17, 3)))
    hvd.shutdown()
    assert_equal(framework, result, expected)
    result += 1
    assert_equal(framework, result, expected + 1)


def test_a_scalar_is_refused(framework: Framework) -> None:
    with pytest.raises((HorovodInternalError, ValueError)):
        framework.hvd.allgather(mine(framework, ()))
