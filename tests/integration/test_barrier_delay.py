"""How long a barrier takes when one rank is late: its own process set waits, another does not."""

from __future__ import annotations

import os
import subprocess
import sys

# All processes are on one machine, so their monotonic clocks are the same clock.
SCRIPT = """
import time
import horovod.numpy as hvd

LATE = 3.0

hvd.init(process_sets="dynamic")
even, odd = hvd.add_process_set([0, 2]), hvd.add_process_set([1, 3])


def barrier(late, **where):
    \"\"\"When each rank came to a barrier and when it left.\"\"\"
    hvd.barrier()
    if hvd.rank() == late:
        time.sleep(LATE)
    came = time.monotonic()
    hvd.barrier(**where)
    return hvd.allgather_object((came, time.monotonic()))


for late in (0, 2):
    times = barrier(late, process_set=even if even.included() else odd)
    came = times[late][0]
    start = min(came for came, _ in times)
    assert came - start > LATE / 2, times
    for rank, (_, left) in enumerate(times):
        if rank in even.ranks:
            assert left >= came, (rank, times)
        else:
            assert left - start < LATE / 2, (rank, times)

times = barrier(1)
assert all(left >= times[1][0] for _, left in times), times
print("fine")
"""


def test_a_late_rank_delays_its_own_set_and_the_global_barrier_only() -> None:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "4", sys.executable, "-c"]
    job = subprocess.run(
        [*command, SCRIPT], env=os.environ, capture_output=True, text=True, timeout=60
    )
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("fine") == 4
