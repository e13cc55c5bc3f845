"""Alltoall: equal parts, given splits, ranks that send or receive nothing, wrong splits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from frameworks import Framework, assert_equal, mine, values

Splits = Callable[[int, int, int], list[int]]


def check(framework: Framework, rows: int, splits: Splits, dtype: str = "float32") -> None:
    """Exchanges with splits(rank, size, rows) on each rank and compares rows and counts."""
    hvd = framework.hvd
    size = hvd.size()
    given = [splits(rank, size, rows) for rank in range(size)]
    result, received = hvd.alltoall(mine(framework, (rows, 3), dtype), given[hvd.rank()])
    parts = []
    for sender in range(size):
        start = sum(given[sender][: hvd.rank()])
        end = start + given[sender][hvd.rank()]
        parts.append(values(sender, (rows, 3), dtype)[start:end])
    assert_equal(framework, result, np.concatenate(parts), dtype)
    assert_equal(framework, received, np.array([len(part) for part in parts]), "int32")


def test_equal_parts(framework: Framework) -> None:
    hvd = framework.hvd
    for dtype in framework.dtypes:
        for shape in [(2 * hvd.size(),), (2 * hvd.size(), 3), (hvd.size(), 2, 3)]:
            result = hvd.alltoall(mine(framework, shape, dtype))
            part = shape[0] // hvd.size()
            rows = slice(hvd.rank() * part, (hvd.rank() + 1) * part)
            parts = [values(rank, shape, dtype)[rows] for rank in range(hvd.size())]
            assert_equal(framework, result, np.concatenate(parts), dtype)


def test_given_splits(framework: Framework) -> None:
    size = framework.hvd.size()
    for dtype in framework.dtypes:
        check(
            framework,
            size * (size + 1),
            lambda rank, size, rows: [rank + 1] * size,
            dtype,
        )


@pytest.mark.parametrize(
    "splits",
    [
        pytest.param(lambda rank, size, rows: [0] * size, id="no rank sends"),
        pytest.param(
            lambda rank, size, rows: [0] * size if rank == 0 else [1] * size,
            id="rank 0 sends nothing",
        ),
        pytest.param(lambda rank, size, rows: [0] + [1] * (size - 1), id="rank 0 receives nothing"),
        pytest.param(
            lambda rank, size, rows: [rank % 2 * 2] * size, id="every other rank is silent"
        ),
        pytest.param(
            lambda rank, size, rows: [rows // size - rank % 2] * size, id="the tail stays"
        ),
        pytest.param(
            lambda rank, size, rows: [rows if to == rank else 0 for to in range(size)],
            id="all to oneself",
        ),
    ],
)
def test_unusual_splits(framework: Framework, splits: Splits) -> None:
    check(framework, 4 * framework.hvd.size(), splits)


def test_an_empty_tensor(framework: Framework) -> None:
    hvd = framework.hvd
    check(framework, 0, lambda rank, size, rows: [0] * size)
    assert_equal(framework, hvd.alltoall(mine(framework, (0, 3))), np.empty((0, 3)))


def test_splits_change_under_one_name(framework: Framework) -> None:
    hvd = framework.hvd
    for rows in [1, 2, 0, 2]:
        tensor = mine(framework, (2 * hvd.size(), 3))
        result, received = hvd.alltoall(tensor, [rows] * hvd.size(), name="again")
        assert framework.array(received).tolist() == [rows] * hvd.size()
        assert result.shape == (rows * hvd.size(), 3)


def test_many_at_once(framework: Framework) -> None:
    hvd = framework.hvd
    handles = [
        hvd.alltoall_async(mine(framework, (hvd.size() * n, 2)), name=str(n)) for n in range(20)
    ]
    for n, handle in enumerate(handles):
        result, received = hvd.synchronize(handle)
        rows = slice(hvd.rank() * n, (hvd.rank() + 1) * n)
        parts = [values(rank, (hvd.size() * n, 2))[rows] for rank in range(hvd.size())]
        assert_equal(framework, result, np.concatenate(parts))
        assert framework.array(received).tolist() == [n] * hvd.size()


def test_splits_as_a_tensor(framework: Framework) -> None:
    hvd = framework.hvd
    splits = framework.tensor(np.full(hvd.size(), 2), "int32")
    result, received = hvd.alltoall(mine(framework, (2 * hvd.size(),)), splits)
    assert result.shape == (2 * hvd.size(),)
    assert_equal(framework, received, np.full(hvd.size(), 2), "int32")


@pytest.mark.usefixtures("several_ranks")
def test_rows_that_do_not_divide(framework: Framework) -> None:
    hvd = framework.hvd
    with pytest.raises(ValueError, match=r".+"):
        hvd.alltoall(mine(framework, (hvd.size() + 1,)))
    test_equal_parts(framework)


def test_wrong_splits(framework: Framework) -> None:
    hvd = framework.hvd
    size = hvd.size()
    tensor = mine(framework, (2 * size,))
    wrong = [
        [3] * size,
        [1] * (size + 1),
        [-1] * size,
        framework.tensor(np.ones(size), "float32"),
        framework.tensor(np.ones((size, 1)), "int32"),
    ]
    for splits in wrong:
        with pytest.raises(ValueError, match=r".+"):
            hvd.alltoall(tensor, splits)
    test_equal_parts(framework)


def test_integers_of_other_widths_as_splits(framework: Framework) -> None:
    """PyTorch's splits are int32 as upstream; NumPy's own integers are wider, so any will do."""
    hvd = framework.hvd
    splits = framework.tensor(np.ones(hvd.size()), "int64")
    tensor = mine(framework, (hvd.size(),))
    if framework.name == "torch":
        with pytest.raises(ValueError, match="int32"):
            hvd.alltoall(tensor, splits)
    else:
        assert_equal(framework, hvd.alltoall(tensor, splits)[1], np.ones(hvd.size()), "int32")
