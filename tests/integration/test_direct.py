"""Large tensors that the ranks of a host read out of each other's memory: results, and refusals."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from textwrap import dedent

import pytest

DROP_FROM_BOUNDING_SET = 24
MAY_READ_OTHERS = 19

# Every rank prints what it counted, and `done` at the end; {before} is run before init.
SCRIPT = """
import ctypes, os
import numpy as np

def hide_memory():
    # As for a program that changes its user: nobody without privileges may read its memory.
    assert ctypes.CDLL(None, use_errno=True).prctl(4, 0, 0, 0, 0) == 0

rank = int(os.environ["HOROVOD_RANK"])
{before}
import horovod.numpy as hvd

hvd.init()
LARGE = 1_048_577

def counted():
    return hvd.counters()["direct_operations"]

def check():
    for dtype in (np.float32, np.float16, np.int64):
        length = LARGE * 4 // np.dtype(dtype).itemsize + 3
        pattern = np.arange(length) % 13
        total = (pattern * hvd.size() + sum(range(hvd.size()))).astype(dtype)
        array = (pattern + hvd.rank()).astype(dtype)
        kept = array.copy()
        assert (hvd.allreduce(array, name="a", op=hvd.Sum) == total).all()
        assert (array == kept).all()
        assert (hvd.allreduce(array, name="a", op=hvd.Max) == pattern + hvd.size() - 1).all()
        result = hvd.allreduce_(array, name="a", op=hvd.Sum)
        assert (array == total).all() and (result == total).all()
    ones = np.full(LARGE, 3, np.float32)
    hvd.allreduce_(ones, name="b", op=hvd.Average, prescale_factor=2.0, postscale_factor=0.5)
    assert (ones == 3).all()
    return 3 * 3 + 1

{body}
print("counted", counted(), flush=True)
hvd.shutdown()
print("done", flush=True)
"""


def without_privilege() -> None:
    """Root would be allowed to read any memory; from the next program on, it is not."""
    ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, MAY_READ_OTHERS, 0, 0, 0)


def run(ranks: int, body: str, before: str = "", direct: str | None = "1") -> list[int]:
    """Runs a job and returns what its ranks counted."""
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks)]
    variables = {} if direct is None else {"HOROVOD_SHM_DIRECT": direct}
    job = subprocess.run(
        [*command, sys.executable, "-c", SCRIPT.format(body=dedent(body), before=before)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=without_privilege,
    )
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("done") == ranks, job.stdout
    return [int(count) for count in re.findall(r"counted (\d+)", job.stdout)]


@pytest.mark.parametrize("ranks", [2, 4])
def test_results_are_right_and_every_operation_is_counted(ranks: int) -> None:
    assert run(ranks, "expected = check()\nassert counted() == expected") == [10] * ranks


def test_members_of_a_set_read_each_other_and_ranks_that_joined_are_read_too() -> None:
    body = """
    pair = hvd.add_process_set([0, 2])
    if hvd.rank() in (0, 2):
        array = np.full(LARGE, 1.0 + hvd.rank(), np.float32)
        assert (hvd.allreduce(array, name="s", op=hvd.Sum, process_set=pair) == 4).all()
        assert counted() == 1
    if hvd.rank() != 1:
        array = np.full(LARGE, 1.0, np.float32)
        result = hvd.allreduce(array, name="j", op=hvd.Sum, prescale_factor=2.0)
        assert (result == 4).all()
    hvd.join()
    """
    before = "os.environ['HOROVOD_DYNAMIC_PROCESS_SETS'] = '1'"
    assert sorted(run(3, body, before)) == [1, 2, 2]


def test_nobody_reads_where_it_is_switched_off() -> None:
    assert run(2, "check()", direct="0") == [0, 0]


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_ranks_choose_alike_by_measurement(ranks: int) -> None:
    counts = run(ranks, "check()", direct=None)
    # Measured again before the ninth, it may be given up.
    assert counts in ([0] * ranks, [8] * ranks, [10] * ranks)


def test_settings_that_differ_do_no_harm() -> None:
    before = "os.environ['HOROVOD_SHM_DIRECT'] = ['1', '0', 'auto'][rank]"
    assert run(3, "check()", before) == [0, 0, 0]


def test_where_the_kernel_refuses_one_rank_all_use_shared_memory() -> None:
    assert run(3, "check()", "if rank == 1: hide_memory()") == [0, 0, 0]


def test_a_rank_may_hide_its_memory_later() -> None:
    body = """
    check()
    if rank == 1: hide_memory()
    hvd.barrier()
    check()
    """
    assert run(2, body) == [10, 10]
