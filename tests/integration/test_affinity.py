"""HOROVOD_THREAD_AFFINITY: the engine's thread of each process runs on its own core."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
from pathlib import Path
import numpy as np
import horovod.numpy as hvd

hvd.init()
hvd.allreduce(np.ones(3), name="x")
for task in Path("/proc/self/task").iterdir():
    status = dict(line.split(":\\t", 1) for line in (task / "status").read_text().splitlines())
    if status["Name"] == "hvd-engine":
        print("engine of", hvd.local_rank(), "on", status["Cpus_allowed_list"])
    elif status["Name"] == "python":
        print("others of", hvd.local_rank(), "on", status["Cpus_allowed_list"])
"""


def run(cores: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "--thread-affinity"]
    return subprocess.run(
        [*command, cores, sys.executable, "-c", SCRIPT],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_each_local_rank_has_the_core_it_was_given() -> None:
    usable = sorted(os.sched_getaffinity(0))
    first, second = usable[-1], usable[0]
    job = run(f"{first},{second}")
    assert job.returncode == 0, job.stderr
    assert f"engine of 0 on {first}\n" in job.stdout, job.stdout
    assert f"engine of 1 on {second}\n" in job.stdout, job.stdout
    if len(usable) > 1:
        assert f"others of 0 on {first}\n" not in job.stdout, "only the engine's thread is bound"
    assert "no effect" not in job.stderr


def test_a_core_that_is_not_there_is_an_error_that_names_the_variable() -> None:
    job = run(f"{min(os.sched_getaffinity(0))},100000")
    assert job.returncode != 0
    told = (
        "ValueError: HOROVOD_THREAD_AFFINITY is of no use to local rank 1: core 100000 is not one"
    )
    assert told in job.stderr, job.stderr
