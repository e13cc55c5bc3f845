"""Attempts to join a job that come to nothing: none succeeds alone, none hangs, all can retry."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

BEGIN = """
import os, signal, sys, time
import numpy as np
import horovod.numpy as hvd
from horovod.common.exceptions import HorovodInternalError

rank, pipe = int(os.environ["HOROVOD_RANK"]), os.environ["PIPE"]

def all_ranks_meet():
    hvd.init()
    total = hvd.allreduce(np.ones(3, np.float32), name="x", op=hvd.Sum)
    assert total.tolist() == [hvd.size()] * 3, total
    print(f"rank {hvd.rank()} met all", flush=True)
    hvd.shutdown()
"""

# Rank 1 is interrupted in its init(), twice, before rank 0 calls it.
INTERRUPTED = (
    BEGIN
    + """
class Interrupted(Exception):
    pass

def interrupt(*_):
    raise Interrupted

if rank == 1:
    signal.signal(signal.SIGALRM, interrupt)
    for _ in range(2):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            hvd.init()
        except Interrupted:
            assert not hvd.is_initialized()
    with open(pipe, "w"):
        pass
else:
    # Until the other end is opened.
    with open(pipe):
        pass
all_ranks_meet()
all_ranks_meet()
"""
)

# Rank 1 gives up after a second, for want of rank 0, and tries again.
FAILED = (
    BEGIN
    + """
if rank == 1:
    os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = "1"
    try:
        hvd.init()
    except HorovodInternalError as error:
        print(f"alone: {error}", flush=True)
    os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = "30"
    with open(pipe, "w"):
        pass
else:
    with open(pipe):
        pass
all_ranks_meet()
all_ranks_meet()
"""
)

# Rank 1 ends well without ever having called init().
ABSENT = (
    BEGIN
    + """
if rank == 1:
    sys.exit(0)
began = time.monotonic()
try:
    hvd.init()
except HorovodInternalError as error:
    print(f"told after {time.monotonic() - began:.1f} s: {error}", flush=True)
    sys.exit(5)
"""
)

# Rank 1 leaves after a first round, and rank 0 wants a second one.
DEPARTED = (
    BEGIN
    + """
all_ranks_meet()
if rank == 0:
    try:
        hvd.init()
    except HorovodInternalError as error:
        print(f"told: {error}", flush=True)
        sys.exit(5)
"""
)


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe at which ranks wait for each other without horovod."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("PIPE", str(tmp_path / "pipe"))


def run(horovodrun: Launch, script: str, *, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    return horovodrun("-np", str(ranks), sys.executable, "-c", script, timeout=60)


@pytest.mark.usefixtures("pipe")
def test_an_interrupted_init_is_no_member_of_the_job(horovodrun: Launch) -> None:
    job = run(horovodrun, INTERRUPTED)
    assert job.returncode == 0, job.stdout + job.stderr
    assert job.stdout.count("met all") == 4, job.stdout


@pytest.mark.usefixtures("pipe")
def test_a_rank_whose_init_failed_meets_the_others_in_the_next(horovodrun: Launch) -> None:
    job = run(horovodrun, FAILED)
    assert job.returncode == 0, job.stdout + job.stderr
    assert "alone: rank 0 of 2 did not come to `init()` within 1 s" in job.stdout
    assert job.stdout.count("met all") == 4, job.stdout


@pytest.mark.usefixtures("pipe")
def test_a_rank_that_ends_before_init_is_not_waited_for(horovodrun: Launch) -> None:
    began = time.monotonic()
    job = run(horovodrun, ABSENT)
    assert job.returncode == 5, job.stdout + job.stderr
    assert time.monotonic() - began < 15, "HOROVOD_GLOO_TIMEOUT_SECONDS is 30"
    expected = "exited with code 0; all ranks of a job have to take part in every init()"
    assert "s: rank 1 on host `" in job.stdout, job.stdout
    assert expected in job.stdout, job.stdout


@pytest.mark.usefixtures("pipe")
def test_a_rank_that_has_left_for_good_is_not_waited_for(horovodrun: Launch) -> None:
    job = run(horovodrun, DEPARTED)
    assert job.returncode == 5, job.stdout + job.stderr
    assert "told: rank 1 on host `" in job.stdout, job.stdout
