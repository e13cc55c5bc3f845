"""Run by every rank: reduces arrays with HOROVOD_CPU_OPERATIONS=mpi and reports what moved them.

data_plane.py [multiple | funneled | finalized]    # what mpi4py has done before `hvd.init()`
"""

from __future__ import annotations

import json
import sys

import numpy as np

import horovod.numpy as hvd
from horovod import _core

before = sys.argv[1] if len(sys.argv) > 1 else None
if before:
    import mpi4py

    mpi4py.rc.thread_level = "funneled" if before == "funneled" else "multiple"
    from mpi4py import MPI

    if before == "finalized":
        MPI.Finalize()

try:
    hvd.init()
except ValueError as error:
    print(json.dumps({"refused": str(error)}) + "\n", end="", flush=True)
    sys.exit(3)

ranks = hvd.size() * (hvd.size() + 1) / 2
for name in ("float32", "float16", "int64"):
    for length in (1, 1000, 2_000_003):
        array = np.full(length, hvd.rank() + 1, dtype=name)
        total = hvd.allreduce(array, op=hvd.Sum, name=f"{name}.{length}")
        assert (total == ranks).all(), (name, length, total)
rows = hvd.allgather(np.full((hvd.rank() + 1, 3), hvd.rank()), name="rows")
assert len(rows) == ranks
root = hvd.broadcast(np.arange(100_000) + hvd.rank(), root_rank=1, name="root")
assert root[0] == 1

report = {
    "rank": hvd.rank(),
    "transport": _core.transport(),
    "enabled": hvd.mpi_enabled(),
    "threads": hvd.mpi_threads_supported(),
}
if before:
    # Both use MPI at the same time.
    report["mpi4py"] = MPI.COMM_WORLD.allreduce(1)
print(json.dumps(report) + "\n", end="", flush=True)
