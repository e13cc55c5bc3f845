"""A job of one process, without a launcher."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import horovod.numpy as hvd
from horovod.common.exceptions import HorovodInternalError


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


def test_the_place() -> None:
    assert (hvd.rank(), hvd.size()) == (0, 1)
    assert (hvd.local_rank(), hvd.local_size()) == (0, 1)
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert (hvd.local_ranks(), hvd.cross_ranks()) == ([0], [0])
    assert hvd.is_homogeneous()


def test_what_is_built() -> None:
    assert hvd.gloo_built() and hvd.mpi_built()
    assert hvd.gloo_enabled()
    assert hvd.nccl_built() == 0
    for absent in (hvd.mpi_enabled, hvd.cuda_built, hvd.ccl_built, hvd.rocm_built):
        assert absent() is False
    assert hvd.mpi_threads_supported() is False


def test_every_operation_returns_the_input() -> None:
    array = np.arange(6.0).reshape(3, 2)
    for result in (
        hvd.allreduce(array),
        hvd.allreduce_(array.copy(), op=hvd.Product),
        hvd.allgather(array),
        hvd.broadcast(array, 0),
        hvd.alltoall(array),
        hvd.alltoall(array, [3])[0],
        hvd.reducescatter(array),
    ):
        np.testing.assert_array_equal(result, array)
    assert hvd.broadcast_object("x") == "x"
    assert hvd.allgather_object("x") == ["x"]
    hvd.barrier()


def test_anything_that_is_like_an_array() -> None:
    assert hvd.allreduce(3.0, op=hvd.Sum) == 3.0
    np.testing.assert_array_equal(hvd.allgather([1, 2]), [1, 2])
    np.testing.assert_array_equal(
        hvd.allreduce(np.arange(6).reshape(2, 3).T), [[0, 3], [1, 4], [2, 5]]
    )
    np.testing.assert_array_equal(hvd.broadcast(np.arange(6)[::2], 0), [0, 2, 4])


def test_in_place_needs_an_ordinary_array() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        hvd.allreduce_(np.ones((2, 3)).T)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        hvd.broadcast_(frozen, 0)
    with pytest.raises(ValueError, match="list"):
        hvd.allreduce_([1.0])  # type: ignore[arg-type]


def test_types_that_cannot_be_sent() -> None:
    for wrong in (np.ones(2, "complex128"), np.array(["text"]), np.ones(2, ">f4")):
        with pytest.raises(ValueError, match="type not supported"):
            hvd.allreduce(wrong)


def test_arguments_of_init() -> None:
    for wrong in ("world", 5):
        with pytest.raises(ValueError, match="a list of ranks or a communicator of mpi4py"):
            hvd.init(comm=wrong)
    for wrong in ("static", 5, [5], ["dynamic"]):
        with pytest.raises(ValueError, match="process_sets"):
            hvd.init(process_sets=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"process_sets\[0\].*global"):
        hvd.init(process_sets=[hvd.ProcessSet([0])])
    assert hvd.is_initialized()


def test_groups_and_join_alone() -> None:
    arrays = [np.arange(3.0), np.arange(4, dtype="int32").reshape(2, 2)]
    for results in (
        hvd.grouped_allreduce(arrays),
        hvd.grouped_allreduce_([array.copy() for array in arrays], op=hvd.Max),
        hvd.grouped_allgather(arrays),
        hvd.grouped_reducescatter(arrays, op=hvd.Sum),
    ):
        assert len(results) == 2
        for result, array in zip(results, arrays):
            np.testing.assert_array_equal(result, array)
            assert result.dtype == array.dtype
    assert hvd.join() == 0


def test_a_process_set_before_it_is_registered() -> None:
    process_set = hvd.ProcessSet([2, 0])
    assert str(process_set) == "ProcessSet(process_set_id=None, ranks=[0, 2], mpi_comm=None)"
    assert process_set.size() is None
    assert process_set.rank() is None
    assert process_set.included() is True
    assert hvd.remove_process_set(process_set) is False
    assert hvd.remove_process_set(hvd.global_process_set) is False
    with pytest.raises(ValueError, match="must be registered"):
        hvd.allreduce(1.0, process_set=process_set)
    with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS=1"):
        hvd.add_process_set(process_set)
    for wrong in (5, [0.5], ["0"]):
        with pytest.raises(ValueError, match=r".+"):
            hvd.ProcessSet(wrong)  # type: ignore[arg-type]


def test_a_forked_child_is_outside_the_job() -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = check_forked_child()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert hvd.allreduce(1.0, op=hvd.Sum) == 1.0


def check_forked_child() -> int:
    if hvd.is_initialized():
        return 2
    try:
        hvd.allreduce(1.0)
    except HorovodInternalError:
        return 0
    return 3
