"""Names used again: the negotiation is remembered, whatever changes between two uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frameworks import Framework, assert_equal, everyones, mine, share, values

from horovod.common import basics

Shape = tuple[int, ...]


def rows_for_me(shape: Shape, dtype: str) -> np.ndarray:
    """What an alltoall in equal parts brings."""
    part = shape[0] // basics.size()
    rows = slice(basics.rank() * part, (basics.rank() + 1) * part)
    return np.concatenate([values(rank, shape, dtype)[rows] for rank in range(basics.size())])


OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[[Shape, str], np.ndarray]]] = {
    "allreduce": (
        lambda hvd, tensor: hvd.allreduce(tensor, name="again", op=hvd.Sum),
        lambda shape, dtype: everyones(shape, dtype).sum(axis=0),
    ),
    "allgather": (
        lambda hvd, tensor: hvd.allgather(tensor, name="again"),
        lambda shape, dtype: np.concatenate(everyones(shape, dtype)),
    ),
    "broadcast": (
        lambda hvd, tensor: hvd.broadcast(tensor, hvd.size() - 1, name="again"),
        lambda shape, dtype: values(basics.size() - 1, shape, dtype),
    ),
    "alltoall": (
        lambda hvd, tensor: hvd.alltoall(tensor, name="again"),
        rows_for_me,
    ),
    "reducescatter": (
        lambda hvd, tensor: hvd.reducescatter(tensor, name="again", op=hvd.Sum),
        lambda shape, dtype: everyones(shape, dtype).sum(axis=0)[share(shape[0], basics.rank())],
    ),
}


@pytest.mark.parametrize(("call", "expected"), OPERATIONS.values(), ids=OPERATIONS.keys())
def test_shape_and_type_of_a_name_may_change(
    framework: Framework,
    call: Callable[..., Any],
    expected: Callable[[Shape, str], np.ndarray],
) -> None:
    size = framework.hvd.size()
    first = ((2 * size, 3), "float32")
    changes = [((size, 3), "float32"), ((2 * size, 3), "int32"), ((2 * size,), "int32")]
    # Each is used several times, so that it is remembered, and the first one comes back.
    for shape, dtype in [first, *changes, first]:
        for _ in range(3):
            result = call(framework.hvd, mine(framework, shape, dtype))
            assert_equal(framework, result, expected(shape, dtype), dtype)


def test_many_names_of_all_operations_in_turn(framework: Framework) -> None:
    hvd = framework.hvd
    shape = (2 * hvd.size(), 3)
    for _ in range(5):
        for call, expected in OPERATIONS.values():
            assert_equal(framework, call(hvd, mine(framework, shape)), expected(shape, "float32"))
