"""A rank that makes jobs and process sets from communicators of mpi4py; prints one line of JSON."""

from __future__ import annotations

import json
import sys

import numpy as np

when = sys.argv[1]
if when == "before":
    from mpi4py import MPI

import horovod.numpy as hvd  # noqa: E402
from horovod import _core  # noqa: E402

if when == "after":
    hvd.init()
    from mpi4py import MPI

    hvd.shutdown()

world = MPI.COMM_WORLD
halves = world.Split(world.rank % 2, world.rank)


def total(process_set: hvd.ProcessSet = hvd.global_process_set) -> float:
    return float(hvd.allreduce(np.array([world.rank]), op=hvd.Sum, process_set=process_set)[0])


# The whole job, and the halves as process sets: one given to `init`, one added.
hvd.init(comm=[world, halves], process_sets="dynamic")
report = {"world": [hvd.rank(), hvd.size(), total()], "sets": len(_core.process_set_ids())}
added = hvd.add_process_set(halves)
report["added"] = [added.ranks, total(added)]
# A shutdown ends what other ranks still do in sets without this one.
hvd.barrier()
hvd.shutdown()
# A job of each half, and one of a list of ranks.
hvd.init(comm=halves)
report["half"] = [hvd.rank(), hvd.size(), total()]
hvd.shutdown()
if world.rank in (3, 0):
    hvd.init(comm=[3, 0])
    report["list"] = [hvd.rank(), hvd.size(), total()]
# In one piece, so that lines of different ranks do not mix.
sys.stdout.write(json.dumps({"rank": world.rank, **report}) + "\n")
