"""Reducescatter: reductions and types, uneven shares, scaling, many at once."""

from __future__ import annotations

import numpy as np
import pytest
from frameworks import (
    SHAPES,
    Framework,
    assert_close,
    assert_equal,
    everyones,
    mine,
    share,
)

from horovod.common.exceptions import HorovodInternalError


def expected_sum(framework: Framework, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    total = everyones(shape, dtype).sum(axis=0)
    return total[share(shape[0], framework.hvd.rank())]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum(framework: Framework, shape: tuple[int, ...]) -> None:
    hvd = framework.hvd
    for dtype in framework.dtypes:
        if dtype != "bool":
            result = hvd.reducescatter(mine(framework, shape, dtype), op=hvd.Sum)
            assert_equal(framework, result, expected_sum(framework, shape, dtype), dtype)


def test_average_is_the_default(framework: Framework) -> None:
    for dtype in framework.scalable:
        result = framework.hvd.reducescatter(mine(framework, (17, 3), dtype))
        total = expected_sum(framework, (17, 3), dtype)
        if "int" in dtype:
            assert_equal(framework, result, np.trunc(total * (1 / framework.hvd.size())), dtype)
        else:
            assert_close(framework, result, total / framework.hvd.size(), dtype)


@pytest.mark.parametrize("rows", range(9))
def test_uneven_shares(framework: Framework, rows: int) -> None:
    hvd = framework.hvd
    result = hvd.reducescatter(mine(framework, (rows, 3)), op=hvd.Sum)
    assert_equal(framework, result, expected_sum(framework, (rows, 3), "float32"), "float32")


def test_scaling(framework: Framework) -> None:
    hvd = framework.hvd
    result = hvd.reducescatter(
        mine(framework, (17,)), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0
    )
    assert_equal(framework, result, expected_sum(framework, (17,), "float32") * 2)


def test_many_at_once(framework: Framework) -> None:
    hvd = framework.hvd
    handles = [
        hvd.reducescatter_async(mine(framework, (rows, 2)), name=str(rows), op=hvd.Sum)
        for rows in range(30)
    ]
    for rows, handle in enumerate(handles):
        result = hvd.synchronize(handle)
        assert_equal(framework, result, expected_sum(framework, (rows, 2), "float32"))


def test_a_scalar_is_refused(framework: Framework) -> None:
    with pytest.raises(ValueError, match="scalar"):
        framework.hvd.reducescatter(mine(framework, ()))


def test_other_reductions_are_refused(framework: Framework) -> None:
    hvd = framework.hvd
    for op in (hvd.Min, hvd.Max, hvd.Product):
        with pytest.raises(HorovodInternalError):
            hvd.reducescatter(mine(framework, (17,)), op=op)
    result = hvd.reducescatter(mine(framework, (17,)), op=hvd.Sum)
    assert_equal(framework, result, expected_sum(framework, (17,), "float32"))
