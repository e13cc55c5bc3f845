"""A rank that dies while others wait for MXNet's arrays: each survivor names it, none hangs."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("mxnet")

# Rank 1 dies in step 5; what the others wait for raises.
SCRIPT = """
import os, signal, sys
import mxnet as mx
import horovod.mxnet as hvd

hvd.init()
tensor = mx.nd.ones((int(sys.argv[2]),))
try:
    for step in range(10**6):
        if hvd.rank() == 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce_(tensor, name="x")
        if sys.argv[1] == "allgather":
            hvd.allgather(tensor, name="y")
        elif sys.argv[1] == "wait":
            tensor.wait_to_read()
        elif step % 10 == 9:
            mx.nd.waitall()
except hvd.HorovodInternalError as error:
    print(f"survivor {hvd.rank()}: {type(error).__name__}: {error}", flush=True)
    sys.exit(3)
"""


# Rank 1 is late, and no rank waits for the last operation.
UNFINISHED = """
import sys, time
import mxnet as mx
import horovod.mxnet as hvd

hvd.init()
tensor = mx.nd.ones((10,))
if hvd.rank() == 1:
    time.sleep(0.5)
if hvd.rank() == 1 or sys.argv[1] == "all":
    hvd.allreduce_(tensor, name="last")
"""


@pytest.mark.parametrize("who", ["all", "some"])
def test_a_program_may_end_without_waiting(who: str) -> None:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", sys.executable, "-c"]
    done = subprocess.run([*command, UNFINISHED, who], capture_output=True, text=True, timeout=25)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr


@pytest.mark.parametrize(
    ("waiting", "elements"), [("wait", 10), ("waitall", 1_000_000), ("allgather", 10)]
)
def test_a_killed_rank_is_named_by_survivors(waiting: str, elements: int) -> None:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "3", sys.executable, "-c"]
    done = subprocess.run(
        [*command, SCRIPT, waiting, str(elements)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert "rank 1 on localhost was killed by signal 9 (SIGKILL)" in done.stderr
    survivors = re.findall(r"survivor (\d): \w+: (.*)", done.stdout)
    assert sorted(rank for rank, _ in survivors) == ["0", "2"], done.stdout + done.stderr
    for _, error in survivors:
        assert error.startswith("rank 1 on host `localhost` "), error
