"""A job that is joined and left hundreds of times: nothing grows in the ranks or in the driver.

The long version, for people: `REINITS=5000 pytest tests/chaos/test_reinit.py -s`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

REINITS = int(os.environ.get("REINITS", "200"))
LIMIT = 60 + REINITS / 5
"""Seconds for the job; a re-init takes a hundredth on a machine with nothing else to do."""

LONG = 1000
"""From so many re-inits on, a quarter is long enough for its time to be compared."""

SCRIPT = """
import json, os, sys, time
import numpy as np
import horovod.numpy as hvd

def count(process, what):
    return len(os.listdir(f"/proc/{process}/{what}"))

# Rank 0's debug responder, which waits for queries in the store, once stayed behind.
driver, rounds = os.getppid(), int(sys.argv[1])
quarter, began = rounds // 4, time.perf_counter()
for step in range(1, rounds + 1):
    hvd.init()
    assert hvd.allreduce(np.ones(1, np.float32), name="x", op=hvd.Sum)[0] == hvd.size()
    if step % quarter == 0 and hvd.rank() == 0:
        seconds = (time.perf_counter() - began) / quarter
        seen = {name: [count(pid, "task"), count(pid, "fd")]
                for name, pid in (("driver", driver), ("rank", os.getpid()))}
        print("seen " + json.dumps({"seconds": seconds, **seen}), flush=True)
        began = time.perf_counter()
    hvd.shutdown()
"""


@pytest.mark.timeout(LIMIT + 30)
def test_threads_and_files_stay_the_same_however_often_a_job_is_joined(horovodrun: Launch) -> None:
    command = [sys.executable, "-c", SCRIPT, str(REINITS)]
    job = horovodrun("-np", "2", *command, timeout=LIMIT)
    assert job.returncode == 0, job.stdout + job.stderr
    print(job.stdout)
    lines = [line.split("seen ", 1)[1] for line in job.stdout.splitlines() if "seen " in line]
    seen = [json.loads(line) for line in lines]
    assert len(seen) == 4, job.stdout
    for process in ("driver", "rank"):
        for first, last in zip(seen[0][process], seen[-1][process], strict=True):
            # A connection or two may just be coming or going.
            assert last <= first + 5, job.stdout
    # On a busy machine a quarter may be slow, but not each slower than the last for ever.
    assert seen[-1]["seconds"] < 10 * seen[0]["seconds"] + 0.1, job.stdout
    if REINITS >= LONG:
        assert seen[-1]["seconds"] < 2 * seen[0]["seconds"] + 0.01, job.stdout
