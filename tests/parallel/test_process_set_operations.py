"""Operations on process sets: results among the members, and sets that do not wait for others."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import (
    Framework,
    assert_close,
    assert_equal,
    even_and_odd,
    everyones,
    mine,
    share,
    values,
)

pytestmark = [
    pytest.mark.usefixtures("several_ranks"),
    pytest.mark.dynamic_process_sets,
]


def own_set(hvd: Any) -> Any:
    """Even or odd ranks, whichever this rank belongs to."""
    return even_and_odd(hvd)[hvd.rank() % 2]


def test_allreduce(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    for dtype in framework.scalable:
        for op, reduce in [(hvd.Sum, np.sum), (hvd.Min, np.min), (hvd.Product, np.prod)]:
            result = hvd.allreduce(mine(framework, (17, 3), dtype), op=op, process_set=members)
            expected = reduce(everyones((17, 3), dtype, members.ranks), axis=0)
            assert_equal(framework, result, expected, dtype)
    tensor = mine(framework, (17, 3))
    hvd.allreduce_(tensor, process_set=members)
    total = everyones((17, 3), ranks=members.ranks).sum(axis=0)
    assert_close(framework, tensor, total / members.size(), "float32")


def test_grouped_allreduce(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    shapes = [(17,), (5, 3)]
    tensors = [mine(framework, shape) for shape in shapes]
    for result, shape in zip(hvd.grouped_allreduce(tensors, process_set=members), shapes):
        total = everyones(shape, ranks=members.ranks).sum(axis=0)
        assert_close(framework, result, total / members.size(), "float32")


def test_allgather(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    expected = np.concatenate([values(rank, (rank + 1, 3)) for rank in members.ranks])
    tensor = mine(framework, (hvd.rank() + 1, 3))
    assert_equal(framework, hvd.allgather(tensor, process_set=members), expected)
    for result in hvd.grouped_allgather([tensor, tensor], process_set=members):
        assert_equal(framework, result, expected)


def test_roots_are_global_ranks(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    for index in range(members.size()):
        root = members.ranks[index]
        result = hvd.broadcast(mine(framework, (5,)), root, process_set=members)
        assert_equal(framework, result, values(root, (5,)))
        tensor = mine(framework, (5,))
        hvd.broadcast_(tensor, root, process_set=members)
        assert_equal(framework, tensor, values(root, (5,)))
        assert hvd.broadcast_object(hvd.rank(), root, process_set=members) == root


def test_alltoall(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    size = members.size()
    shape = (2 * size, 3)
    rows = slice(2 * members.rank(), 2 * members.rank() + 2)
    expected = np.concatenate([values(rank, shape)[rows] for rank in members.ranks])
    assert_equal(framework, hvd.alltoall(mine(framework, shape), process_set=members), expected)
    result, received = hvd.alltoall(mine(framework, shape), [2] * size, process_set=members)
    assert_equal(framework, result, expected)
    assert_equal(framework, received, np.full(size, 2), "int32")


def test_reducescatter(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    rows = share(7, members.rank(), members.size())
    expected = everyones((7, 3), ranks=members.ranks).sum(axis=0)[rows]
    tensor = mine(framework, (7, 3))
    result = hvd.reducescatter(tensor, op=hvd.Sum, process_set=members)
    assert_equal(framework, result, expected)
    for result in hvd.grouped_reducescatter([tensor, tensor], process_set=members):
        assert_close(framework, result, expected / members.size(), "float32")


def test_objects(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    assert hvd.allgather_object({"rank": hvd.rank()}, process_set=members) == [
        {"rank": rank} for rank in members.ranks
    ]


def test_one_name_in_several_sets(framework: Framework) -> None:
    hvd = framework.hvd
    members = own_set(hvd)
    for _ in range(3):
        handles = [
            (hvd.allreduce_async(mine(framework, (5,)), name="x", op=hvd.Sum, process_set=one), one)
            for one in (members, hvd.global_process_set)
        ]
        for handle, one in handles:
            result = hvd.synchronize(handle)
            assert_equal(framework, result, everyones((5,), ranks=one.ranks).sum(axis=0))


def test_sets_in_different_orders(framework: Framework) -> None:
    """Sets that share ranks do not wait for each other crosswise."""
    hvd = framework.hvd
    alone = [hvd.add_process_set([rank]) for rank in range(hvd.size())]
    sets = [alone[hvd.rank()], hvd.global_process_set]
    if hvd.size() > 2:
        sets += [hvd.add_process_set(range(1, hvd.size())), hvd.add_process_set([0, 1])]
    cases = [(one, str(n)) for one in sets if one.included() for n in range(5)]
    order = np.random.default_rng(hvd.rank()).permutation(len(cases))
    handles = {}
    for index in order:
        one, name = cases[index]
        handles[index] = hvd.allreduce_async(
            mine(framework, (5,)), name=name, op=hvd.Sum, process_set=one
        )
    for index, handle in handles.items():
        ranks = cases[index][0].ranks
        assert_equal(framework, hvd.synchronize(handle), everyones((5,), ranks=ranks).sum(axis=0))


def test_a_late_set_does_not_delay_another(framework: Framework) -> None:
    hvd = framework.hvd
    even, odd = even_and_odd(hvd)
    late = even.ranks[-1]
    if hvd.rank() == late:
        # Passes only once the odd ranks are done and the other even ranks have been kept waiting.
        hvd.barrier()
    if odd.included():
        for n in range(20):
            result = hvd.allreduce(mine(framework, (n,)), name=str(n), op=hvd.Sum, process_set=odd)
            assert_equal(framework, result, everyones((n,), ranks=odd.ranks).sum(axis=0))
        hvd.barrier()
        return
    handle = hvd.allreduce_async(mine(framework, (5,)), name="x", op=hvd.Sum, process_set=even)
    if hvd.rank() != late:
        assert not hvd.poll(handle)
        hvd.barrier()
    assert_equal(framework, hvd.synchronize(handle), everyones((5,), ranks=even.ranks).sum(axis=0))


def test_a_barrier_delays_only_the_members(framework: Framework) -> None:
    """The last even rank goes to its barrier when the odd ranks have passed theirs."""
    hvd = framework.hvd
    even, odd = even_and_odd(hvd)
    late = even.ranks[-1]
    late_and_odd = sorted([late, *odd.ranks])
    has_all_ranks = late_and_odd == list(range(hvd.size()))
    members = hvd.global_process_set if has_all_ranks else hvd.add_process_set(late_and_odd)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(tempfile.TemporaryDirectory()) if hvd.rank() == 0 else None
        arrived = Path(hvd.broadcast_object(own)) / "arrived"
        if odd.included():
            hvd.barrier(process_set=odd)
            assert not arrived.exists()
        if members.included():
            hvd.barrier(process_set=members)
        if even.included():
            if hvd.rank() == late:
                arrived.touch()
            hvd.barrier(process_set=even)
            assert arrived.exists()
        hvd.barrier()
        assert arrived.exists()
        hvd.barrier()
