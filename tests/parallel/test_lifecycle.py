"""Joining and leaving: what a process is told about its place, and errors outside a job."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from frameworks import Framework, assert_equal, everyones, mine

from horovod.common.exceptions import HorovodInternalError

# The first pair that is set counts, as for `init()`.
PLACES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


def launchers_place() -> tuple[int, int]:
    for rank, size in PLACES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def test_the_place_is_the_launchers(framework: Framework) -> None:
    hvd = framework.hvd
    assert (hvd.rank(), hvd.size()) == launchers_place()
    assert hvd.local_rank() == int(os.environ.get("HOROVOD_LOCAL_RANK", str(hvd.local_rank())))
    assert 0 <= hvd.local_rank() < hvd.local_size() <= hvd.size()
    assert 0 <= hvd.cross_rank() < hvd.cross_size() <= hvd.size()
    assert hvd.local_ranks()[hvd.local_rank()] == hvd.rank()
    assert hvd.cross_ranks()[hvd.cross_rank()] == hvd.rank()
    assert hvd.global_process_set.ranks == list(range(hvd.size()))
    assert hvd.global_process_set.size() == hvd.size()
    assert hvd.global_process_set.rank() == hvd.rank()
    assert hvd.global_process_set.included() is True


def test_init_twice_is_harmless(framework: Framework) -> None:
    hvd = framework.hvd
    before = (hvd.rank(), hvd.size())
    hvd.init()
    assert (hvd.rank(), hvd.size()) == before


def test_join_and_leave_a_hundred_times(framework: Framework) -> None:
    hvd = framework.hvd
    before = (hvd.rank(), hvd.size())
    for _ in range(100):
        hvd.shutdown()
        assert not hvd.is_initialized()
        hvd.init()
        assert (hvd.rank(), hvd.size()) == before
        result = hvd.allreduce(mine(framework, (5,)), name="x", op=hvd.Sum)
        assert_equal(framework, result, everyones((5,)).sum(axis=0))


def test_outside_a_job(framework: Framework) -> None:
    hvd = framework.hvd
    tensor = mine(framework, (5,))
    hvd.shutdown()
    for question in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_size):
        with pytest.raises(ValueError, match="init"):
            question()
    for operation in (
        lambda: hvd.allreduce(tensor),
        lambda: hvd.allgather(tensor),
        lambda: hvd.broadcast(tensor, 0),
        lambda: hvd.alltoall(tensor),
        lambda: hvd.reducescatter(tensor),
        lambda: hvd.grouped_allreduce([tensor]),
        lambda: hvd.grouped_allgather([tensor]),
        lambda: hvd.grouped_reducescatter([tensor]),
        lambda: hvd.barrier(),
        lambda: hvd.join(),
        lambda: hvd.broadcast_object(1),
    ):
        with pytest.raises(HorovodInternalError):
            operation()


@pytest.mark.usefixtures("several_ranks")
def test_a_rank_that_leaves_fails_the_others(framework: Framework) -> None:
    hvd = framework.hvd
    if hvd.rank() == 0:
        hvd.shutdown()
        return
    with pytest.raises(HorovodInternalError):
        hvd.allreduce(mine(framework, (5,)), name="alone")


def test_handles_end_with_the_job(framework: Framework) -> None:
    hvd = framework.hvd
    handles = [hvd.allreduce_async(mine(framework, (5,)), op=hvd.Sum) for _ in range(2)]
    total = everyones((5,)).sum(axis=0)
    hvd.barrier()
    hvd.shutdown()
    assert hvd.poll(handles[0])
    assert_equal(framework, hvd.synchronize(handles[0]), total)
    assert hvd.synchronize(handles[0]) is None
    with pytest.raises(ValueError, match="handle"):
        hvd.poll(handles[0])
    hvd.init()
    for use in (hvd.poll, hvd.synchronize):
        with pytest.raises(HorovodInternalError, match="has been shut down before handle"):
            use(handles[1])


@pytest.mark.usefixtures("several_ranks")
def test_an_interrupted_wait_can_be_taken_up_again(framework: Framework) -> None:
    hvd = framework.hvd
    if hvd.rank() != 0:
        # The operations stay in flight on rank 0 until this rank submits its part.
        hvd.barrier()
    handles = [
        hvd.allreduce_async(mine(framework, (5,)), name="x", op=hvd.Sum),
        hvd.grouped_allreduce_async([mine(framework, (5,))] * 2, name="x", op=hvd.Sum),
    ]
    if hvd.rank() == 0:
        for handle in handles:
            interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                interrupt.start()
                hvd.synchronize(handle)
            interrupt.join()
        hvd.barrier()
    results = [hvd.synchronize(handle) for handle in handles]
    for result in (results[0], *results[1]):
        assert_equal(framework, result, everyones((5,)).sum(axis=0))


@pytest.mark.usefixtures("several_ranks")
def test_an_interrupted_join_can_be_taken_up_again(framework: Framework, tmp_path: Path) -> None:
    hvd = framework.hvd
    # Rank 0 has joined and can take part in nothing else, so it leaves word in a file.
    word = Path(hvd.broadcast_object(str(tmp_path), 0)) / "interrupted"
    if hvd.rank() == 0:
        interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            interrupt.start()
            hvd.join()
        interrupt.join()
        word.touch()
    else:
        while not word.exists():
            time.sleep(0.01)
    assert hvd.join() != 0
