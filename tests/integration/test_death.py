"""A rank that dies in the middle of a loop of allreduces: every survivor names it, none hangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

RANKS = 4

# Each rank says who it is, then reduces for ever. Survivors print how long after the death (its
# time is in a file that the test writes) the error came, and that later calls fail the same way.
SCRIPT = """
import os, sys, time
import numpy as np
import horovod.numpy as hvd
from horovod.common.exceptions import HorovodInternalError

hvd.init()
if os.environ.get("FORK_FIRST") and os.fork() == 0:
    time.sleep(30)
    os._exit(0)
array = np.ones(int(os.environ["ELEMENTS"]), np.float32)
for step in range(10**9):
    try:
        hvd.allreduce_(array, name="x", op=hvd.Average)
    except HorovodInternalError as error:
        first = str(error)
        break
    if step == 3:
        print(f"ready {hvd.rank()} {os.getpid()}", flush=True)
seen = time.time()
try:
    hvd.allreduce(array, name="y")
except HorovodInternalError as error:
    assert str(error) == first, (str(error), first)
print(f"survivor {hvd.rank()} at {seen}: {first}", flush=True)
sys.exit(3)
"""


@contextmanager
def running(environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], dict[int, int]]]:
    """A job whose ranks are all in the loop, with their process ids by rank."""
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(RANKS)]
    job = subprocess.Popen(
        [*command, sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert job.stdout is not None
    pids: dict[int, int] = {}
    said = ""
    try:
        while len(pids) < RANKS:
            line = job.stdout.readline()
            said += line
            assert line, f"the job ended early with {job.wait()}:\n{said}"
            if match := re.search(r"ready (\d+) (\d+)", line):
                pids[int(match[1])] = int(match[2])
        yield job, pids
    finally:
        job.kill()
        job.communicate()


def kill_and_check(victim: int, environment: dict[str, str]) -> None:
    with running(environment) as (job, pids):
        death = time.time()
        os.kill(pids[victim], signal.SIGKILL)
        output, _ = job.communicate(timeout=30)
    report = f"rank {victim} on localhost was killed by signal 9 (SIGKILL)"
    assert f"horovodrun: the job failed: {report}" in output, output
    assert job.returncode == 128 + signal.SIGKILL, output
    survivors = re.findall(r"survivor (\d) at ([\d.]+): (.*)", output)
    assert sorted(int(rank) for rank, _, _ in survivors) == sorted(set(pids) - {victim}), output
    for _, seen, error in survivors:
        assert error.startswith(f"rank {victim} on host `localhost` "), error
        assert float(seen) - death < 1, output
    for pid in pids.values():
        assert not os.path.exists(f"/proc/{pid}"), f"process {pid} is left behind"


@pytest.mark.parametrize("attempt", range(20))
def test_killed_rank_is_named_by_launcher_and_survivors(attempt: int) -> None:
    # Small and large operations on both wires, each rank in turn.
    elements = [10, 100_000, 2_000_000][attempt % 3]
    transport = ["shm", "tcp"][attempt % 2]
    environment = {"ELEMENTS": str(elements), "HOROVOD_TRANSPORT": transport}
    kill_and_check(attempt % RANKS, environment)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_killed_rank_is_noticed_although_its_forked_child_lives(transport: str) -> None:
    # The child inherits the sockets, which therefore do not close with the rank's death.
    environment = {"ELEMENTS": "10", "HOROVOD_TRANSPORT": transport, "FORK_FIRST": "1"}
    kill_and_check(2, environment)


# Rank 1 ends in the middle; the others fail because of it, and often end first.
LEAVING = """
import sys
import numpy as np
import horovod.numpy as hvd

hvd.init()
for step in range(1000):
    if hvd.rank() == 1 and step == 20:
        {leave}
    hvd.allreduce(np.ones(10), name="x")
"""


@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize(
    ("leave", "code", "heard"),
    [
        ("raise KeyError('the reason')", 1, "rank 1 on host `localhost` ended with KeyError: 'the"),
        ("sys.exit(3)", 3, "horovod has been shut down by rank 1 on host `localhost`"),
        ("__import__('os')._exit(4)", 4, "rank 1 on host `localhost` closed its connection"),
    ],
)
def test_the_rank_that_left_is_blamed_and_not_a_consequence(
    attempt: int, leave: str, code: int, heard: str
) -> None:
    script = LEAVING.format(leave=leave)
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "3", sys.executable, "-c"]
    job = subprocess.run([*command, script], capture_output=True, text=True, timeout=60)
    assert f"the job failed: rank 1 on localhost exited with code {code}" in job.stderr, job.stderr
    assert job.returncode == code
    assert job.stderr.count(f"HorovodInternalError: {heard}") == 2, job.stderr
