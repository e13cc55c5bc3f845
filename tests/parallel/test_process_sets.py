"""Process sets: how they are registered and removed, and what they know about themselves."""

from __future__ import annotations

from typing import Any

import pytest
from frameworks import Framework, assert_equal, even_and_odd, everyones, mine

from horovod import _core
from horovod.common.exceptions import HorovodInternalError

pytestmark = pytest.mark.usefixtures("several_ranks")

dynamic = pytest.mark.dynamic_process_sets


def known_to_the_core() -> dict[int, list[int]]:
    return {number: _core.process_set_ranks(number) for number in _core.process_set_ids()}


def check_sum(framework: Framework, process_set: Any) -> None:
    """The members of a set, and only they, can use it."""
    hvd = framework.hvd
    if process_set.included():
        result = hvd.allreduce(mine(framework, (5,)), name="x", op=hvd.Sum, process_set=process_set)
        assert_equal(framework, result, everyones((5,), ranks=process_set.ranks).sum(axis=0))


def test_static_sets_are_numbered_in_order(framework: Framework) -> None:
    hvd = framework.hvd
    hvd.shutdown()
    sets = [hvd.ProcessSet([1]), hvd.ProcessSet([0])]
    hvd.init(process_sets=sets)
    assert [process_set.process_set_id for process_set in sets] == [1, 2]
    assert known_to_the_core() == {0: list(range(hvd.size())), 1: [1], 2: [0]}
    for process_set in sets:
        check_sum(framework, process_set)


@pytest.mark.usefixtures("three_ranks")
def test_the_order_of_ranks_does_not_matter(framework: Framework) -> None:
    hvd = framework.hvd
    hvd.shutdown()
    process_set = hvd.ProcessSet([2, 0])
    hvd.init(process_sets=[process_set])
    assert process_set.ranks == [0, 2]
    assert known_to_the_core()[1] == [0, 2]
    check_sum(framework, process_set)
    hvd.init(process_sets=[hvd.ProcessSet([0, 2])])
    assert known_to_the_core()[1] == [0, 2]


def test_static_duplicates_name_the_index(framework: Framework) -> None:
    hvd = framework.hvd
    all_ranks = list(range(hvd.size()))
    hvd.shutdown()
    for wrong in ([[0], [1], [0]], [[1], [0], all_ranks[::-1]]):
        with pytest.raises(ValueError, match=r"process_sets\[2\]"):
            hvd.init(process_sets=[hvd.ProcessSet(ranks) for ranks in wrong])
        assert hvd.is_initialized()
        assert known_to_the_core() == {0: all_ranks}
        check_sum(framework, hvd.global_process_set)
    good = [hvd.ProcessSet([0]), hvd.ProcessSet([1])]
    hvd.init(process_sets=good)
    assert [process_set.process_set_id for process_set in good] == [1, 2]


def test_init_again_finds_the_same_sets(framework: Framework) -> None:
    hvd = framework.hvd
    first, second = hvd.ProcessSet([0]), hvd.ProcessSet([1])
    hvd.init(process_sets=[first])
    again = hvd.ProcessSet([0])
    hvd.init(process_sets=[second, again])
    assert (first.process_set_id, second.process_set_id, again.process_set_id) == (1, 2, 1)


def test_ranks_must_pass_the_same_static_sets(framework: Framework) -> None:
    hvd = framework.hvd
    differs = hvd.rank() == hvd.size() - 1
    for other in ([[1], [0]], [[0]], [[0], [0]]):
        ranks_by_set = other if differs else [[0], [1]]
        with pytest.raises(ValueError, match=f"rank {hvd.size() - 1}"):
            hvd.init(process_sets=[hvd.ProcessSet(ranks) for ranks in ranks_by_set])
    assert known_to_the_core() == {0: list(range(hvd.size()))}


def test_static_sets_cannot_be_changed(framework: Framework) -> None:
    hvd = framework.hvd
    process_set = hvd.ProcessSet([0])
    hvd.init(process_sets=[process_set])
    with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS=1"):
        hvd.add_process_set([1])
    with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS=1"):
        hvd.remove_process_set(process_set)
    check_sum(framework, process_set)


def test_the_word_dynamic_in_any_case(framework: Framework) -> None:
    hvd = framework.hvd
    hvd.shutdown()
    hvd.init(process_sets="Dynamic")
    check_sum(framework, hvd.add_process_set([1]))


@dynamic
def test_what_a_set_knows(framework: Framework) -> None:
    hvd = framework.hvd
    for process_set in even_and_odd(hvd):
        member = hvd.rank() in process_set.ranks
        assert process_set.size() == len(process_set.ranks)
        assert process_set.included() is member
        if member:
            assert process_set.rank() == process_set.ranks.index(hvd.rank())
        else:
            with pytest.raises(ValueError, match=f"rank {hvd.rank()} is not in"):
                process_set.rank()
        number, ranks = process_set.process_set_id, process_set.ranks
        text = f"ProcessSet(process_set_id={number}, ranks={ranks}, mpi_comm=None)"
        assert str(process_set) == text


@dynamic
def test_add_remove_and_add_again(framework: Framework) -> None:
    hvd = framework.hvd
    zero, one = hvd.ProcessSet([0]), hvd.ProcessSet([1])
    assert hvd.add_process_set(zero) is zero
    assert hvd.add_process_set(one) is one
    assert (zero.process_set_id, one.process_set_id) == (1, 2)
    check_sum(framework, zero)
    assert hvd.remove_process_set(zero) is True
    assert (zero.process_set_id, zero.size(), zero.rank()) == (None, None, None)
    assert zero.ranks == [0]
    assert hvd.remove_process_set(zero) is False
    with pytest.raises(ValueError, match="must be registered"):
        hvd.allreduce(mine(framework, (5,)), process_set=zero)
    check_sum(framework, one)
    hvd.add_process_set(zero)
    assert zero.process_set_id == 1
    for process_set in (zero, one, hvd.global_process_set):
        check_sum(framework, process_set)


@dynamic
def test_numbers_are_used_again_oldest_first(framework: Framework) -> None:
    hvd = framework.hvd
    zero, one = hvd.add_process_set([0]), hvd.add_process_set([1])
    for process_set in (one, zero):
        assert hvd.remove_process_set(process_set)
    zero, one = hvd.add_process_set([0]), hvd.add_process_set([1])
    numbers = [zero.process_set_id, one.process_set_id]
    assert numbers == [2, 1]
    assert hvd.allgather_object(numbers) == [numbers] * hvd.size()
    for process_set in (zero, one):
        check_sum(framework, process_set)


@dynamic
def test_names_and_types_are_new_in_a_set_that_gets_an_old_number(framework: Framework) -> None:
    hvd = framework.hvd
    for turn, dtype in enumerate(["float32", "int32", "float32", "int64"]):
        process_set = hvd.add_process_set([turn % 2])
        assert process_set.process_set_id == 1
        for shape in ((turn + 1,), (4,), (4,)):
            if process_set.included():
                result = hvd.allreduce(
                    mine(framework, shape, dtype), name="x", op=hvd.Sum, process_set=process_set
                )
                expected = everyones(shape, dtype, process_set.ranks).sum(axis=0)
                assert_equal(framework, result, expected, dtype)
        assert hvd.remove_process_set(process_set)


@dynamic
def test_sets_that_make_no_sense(framework: Framework) -> None:
    hvd = framework.hvd
    hvd.add_process_set([0])
    for wrong, text in [
        ([0], "already exists"),
        (range(hvd.size()), "already exists"),
        ([0, 0], "twice"),
        ([], "empty"),
        ([hvd.size()], f"rank {hvd.size()}"),
        ([-1], "-1"),
    ]:
        process_set = hvd.ProcessSet(wrong)
        with pytest.raises(ValueError, match=text):
            hvd.add_process_set(process_set)
        assert process_set.process_set_id is None
    with pytest.raises(ValueError, match="already exists"):
        hvd.add_process_set(hvd.global_process_set)
    assert hvd.remove_process_set(hvd.global_process_set) is False
    assert hvd.global_process_set.process_set_id == 0
    check_sum(framework, hvd.global_process_set)


@dynamic
def test_ranks_must_add_the_same(framework: Framework) -> None:
    hvd = framework.hvd
    with pytest.raises(ValueError, match="agree"):
        hvd.add_process_set([0] if hvd.rank() == 0 else [1])
    assert known_to_the_core() == {0: list(range(hvd.size()))}
    check_sum(framework, hvd.add_process_set([1]))


@dynamic
def test_operations_of_ranks_outside(framework: Framework) -> None:
    hvd = framework.hvd
    process_set = hvd.add_process_set([0])
    tensor = mine(framework, (5,))
    if hvd.rank() != 0:
        for operation in (
            lambda: hvd.allreduce(tensor, process_set=process_set),
            lambda: hvd.allgather(tensor, process_set=process_set),
            lambda: hvd.broadcast(tensor, 0, process_set=process_set),
            lambda: hvd.alltoall(tensor, process_set=process_set),
            lambda: hvd.reducescatter(tensor, process_set=process_set),
            lambda: hvd.grouped_allreduce([tensor], process_set=process_set),
            lambda: hvd.barrier(process_set=process_set),
            lambda: hvd.broadcast_object(1, process_set=process_set),
        ):
            with pytest.raises(ValueError, match="process set 1"):
                operation()
    else:
        with pytest.raises(ValueError, match="root"):
            hvd.broadcast(tensor, 1, process_set=process_set)
    check_sum(framework, process_set)


@dynamic
def test_unknown_numbers(framework: Framework) -> None:
    hvd = framework.hvd
    stranger = hvd.ProcessSet([hvd.rank()])
    stranger.process_set_id = 77
    for question in (stranger.size, stranger.rank):
        with pytest.raises(ValueError, match="77"):
            question()
    with pytest.raises(ValueError, match="77"):
        hvd.allreduce(mine(framework, (5,)), process_set=stranger)
    with pytest.raises(ValueError, match="ProcessSet"):
        hvd.allreduce(mine(framework, (5,)), process_set=[0])


@dynamic
@pytest.mark.usefixtures("three_ranks")
def test_pending_operations_of_a_removed_set_fail(framework: Framework) -> None:
    hvd = framework.hvd
    for _ in range(3):
        pair = hvd.add_process_set([0, 1])
        assert pair.process_set_id == 1
        handle = None
        if hvd.rank() == 0:
            handle = hvd.allreduce_async(mine(framework, (5,)), name="x", process_set=pair)
        assert hvd.remove_process_set(pair)
        if handle is not None:
            with pytest.raises(HorovodInternalError, match="removed"):
                hvd.synchronize(handle)
    check_sum(framework, hvd.add_process_set([0, 1]))


@dynamic
def test_sets_end_with_the_job(framework: Framework) -> None:
    hvd = framework.hvd
    process_set = hvd.add_process_set([0])
    hvd.barrier()
    hvd.shutdown()
    assert process_set.process_set_id is None
    assert process_set.size() is None
    assert hvd.global_process_set.ranks is None
    assert hvd.global_process_set.included() is None
    hvd.init()
    assert known_to_the_core() == {0: list(range(hvd.size()))}
    hvd.add_process_set(process_set)
    assert process_set.process_set_id == 1
