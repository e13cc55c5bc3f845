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
    assert hvd.is_homogeneous()


def test_what_is_built() -> None:
    assert hvd.gloo_built()
    assert hvd.gloo_enabled()
    assert hvd.nccl_built() == 0
    for absent in (hvd.mpi_built, hvd.mpi_enabled, hvd.cuda_built, hvd.ccl_built, hvd.rocm_built):
        assert absent() is False
    with pytest.raises(ValueError, match="MPI"):
        hvd.mpi_threads_supported()


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
    with pytest.raises(ValueError, match="MPI"):
        hvd.init(comm=[0])
    with pytest.raises(NotImplementedError, match="process_sets"):
        hvd.init(process_sets=[hvd.ProcessSet([0])])


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
