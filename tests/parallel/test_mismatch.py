"""Ranks that disagree: every rank is told, nothing is broken, the name can be used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frameworks import Framework, assert_equal, everyones, mine

from horovod.common.exceptions import HorovodInternalError

pytestmark = pytest.mark.usefixtures("several_ranks")

Call = Callable[[Framework, Any, bool], Any]
"""Calls a collective; the flag says whether this rank is the one that differs."""


def tensor(framework: Framework, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return framework.tensor(np.ones(shape), dtype)


MISMATCHES: dict[str, Call] = {
    "allreduce shape": lambda f, hvd, odd: hvd.allreduce(tensor(f, (5 if odd else 4,)), name="x"),
    "allreduce dimensions": lambda f, hvd, odd: hvd.allreduce(
        tensor(f, (2, 2) if odd else (4,)), name="x"
    ),
    "allreduce type": lambda f, hvd, odd: hvd.allreduce(
        tensor(f, (4,), "int32" if odd else "float32"), name="x"
    ),
    "allreduce reduction": lambda f, hvd, odd: hvd.allreduce(
        tensor(f, (4,)), name="x", op=hvd.Max if odd else hvd.Min
    ),
    "allreduce prescale": lambda f, hvd, odd: hvd.allreduce(
        tensor(f, (4,)), name="x", prescale_factor=2.0 if odd else 1.0
    ),
    "allreduce postscale": lambda f, hvd, odd: hvd.allreduce(
        tensor(f, (4,)), name="x", postscale_factor=2.0 if odd else 1.0
    ),
    "allgather type": lambda f, hvd, odd: hvd.allgather(
        tensor(f, (4,), "int32" if odd else "float32"), name="x"
    ),
    "allgather dimensions": lambda f, hvd, odd: hvd.allgather(
        tensor(f, (4, 1) if odd else (4,)), name="x"
    ),
    "allgather second dimension": lambda f, hvd, odd: hvd.allgather(
        tensor(f, (4, 3 if odd else 2)), name="x"
    ),
    "broadcast shape": lambda f, hvd, odd: hvd.broadcast(
        tensor(f, (5 if odd else 4,)), 0, name="x"
    ),
    "broadcast dimensions": lambda f, hvd, odd: hvd.broadcast(
        tensor(f, (2, 2) if odd else (4,)), 0, name="x"
    ),
    "broadcast type": lambda f, hvd, odd: hvd.broadcast(
        tensor(f, (4,), "int32" if odd else "float32"), 0, name="x"
    ),
    "broadcast root": lambda f, hvd, odd: hvd.broadcast(tensor(f, (4,)), 1 if odd else 0, name="x"),
    "alltoall type": lambda f, hvd, odd: hvd.alltoall(
        tensor(f, (hvd.size(),), "int32" if odd else "float32"), name="x"
    ),
    "alltoall dimensions": lambda f, hvd, odd: hvd.alltoall(
        tensor(f, (hvd.size(), 1) if odd else (hvd.size(),)), name="x"
    ),
    "alltoall second dimension": lambda f, hvd, odd: hvd.alltoall(
        tensor(f, (hvd.size(), 3 if odd else 2)), name="x"
    ),
    "reducescatter shape": lambda f, hvd, odd: hvd.reducescatter(
        tensor(f, (5 if odd else 4,)), name="x"
    ),
    "reducescatter dimensions": lambda f, hvd, odd: hvd.reducescatter(
        tensor(f, (2, 2) if odd else (4,)), name="x"
    ),
    "reducescatter prescale": lambda f, hvd, odd: hvd.reducescatter(
        tensor(f, (4,)), name="x", prescale_factor=2.0 if odd else 1.0
    ),
    "reducescatter type": lambda f, hvd, odd: hvd.reducescatter(
        tensor(f, (4,), "int32" if odd else "float32"), name="x"
    ),
    "grouped allreduce shape": lambda f, hvd, odd: hvd.grouped_allreduce(
        [tensor(f, (4,)), tensor(f, (5 if odd else 4,)), tensor(f, (6,))], name="x"
    ),
    "grouped allgather type": lambda f, hvd, odd: hvd.grouped_allgather(
        [tensor(f, (4,), "int32" if odd else "float32"), tensor(f, (4,))], name="x"
    ),
    "grouped reducescatter shape": lambda f, hvd, odd: hvd.grouped_reducescatter(
        [tensor(f, (4,)), tensor(f, (5 if odd else 4,))], name="x"
    ),
    "reducescatter reduction": lambda f, hvd, odd: hvd.reducescatter(
        tensor(f, (4,)), name="x", op=hvd.Sum if odd else hvd.Average
    ),
}


@pytest.mark.parametrize("call", MISMATCHES.values(), ids=MISMATCHES.keys())
@pytest.mark.parametrize("odd_rank", [0, 1], ids=["first rank", "second rank"])
def test_every_rank_is_told(framework: Framework, call: Call, odd_rank: int) -> None:
    hvd = framework.hvd
    for _ in range(2):
        with pytest.raises(HorovodInternalError, match=r".+"):
            call(framework, hvd, hvd.rank() == odd_rank)
        call(framework, hvd, False)
        result = hvd.allreduce(mine(framework, (17,)), name="after", op=hvd.Sum)
        assert_equal(framework, result, everyones((17,)).sum(axis=0))


def test_others_in_flight_are_not_touched(framework: Framework) -> None:
    hvd = framework.hvd
    good = [hvd.allreduce_async(mine(framework, (n,)), name=str(n), op=hvd.Sum) for n in range(9)]
    wrong = hvd.allreduce_async(mine(framework, (hvd.rank() + 1,)), name="wrong", op=hvd.Sum)
    with pytest.raises(HorovodInternalError):
        hvd.synchronize(wrong)
    assert hvd.synchronize(wrong) is None
    for n, handle in enumerate(good):
        assert_equal(framework, hvd.synchronize(handle), everyones((n,)).sum(axis=0))


SUBMISSIONS: dict[str, Callable[[Any, Any], int]] = {
    "allreduce": lambda hvd, tensor: hvd.allreduce_async(tensor, name="twice"),
    "allgather": lambda hvd, tensor: hvd.allgather_async(tensor, name="twice"),
    "broadcast": lambda hvd, tensor: hvd.broadcast_async(tensor, 0, name="twice"),
    "alltoall": lambda hvd, tensor: hvd.alltoall_async(tensor, name="twice"),
    "reducescatter": lambda hvd, tensor: hvd.reducescatter_async(tensor, name="twice"),
    "grouped allreduce": lambda hvd, tensor: hvd.grouped_allreduce_async(
        [tensor, tensor], name="twice"
    ),
    "grouped allgather": lambda hvd, tensor: hvd.grouped_allgather_async(
        [tensor, tensor], name="twice"
    ),
    "grouped reducescatter": lambda hvd, tensor: hvd.grouped_reducescatter_async(
        [tensor, tensor], name="twice"
    ),
}


@pytest.mark.parametrize("submit", SUBMISSIONS.values(), ids=SUBMISSIONS.keys())
def test_a_name_in_flight_cannot_be_used(
    framework: Framework, submit: Callable[[Any, Any], int]
) -> None:
    hvd = framework.hvd
    ones = tensor(framework, (2 * hvd.size(),))
    if hvd.rank() != 0:
        # The first operation stays in flight on rank 0 until this rank submits its part.
        hvd.barrier()
    handle = submit(hvd, ones)
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="twice"):
            submit(hvd, ones)
        assert not hvd.poll(handle)
        hvd.barrier()
    assert hvd.synchronize(handle) is not None
    assert hvd.synchronize(submit(hvd, ones)) is not None
