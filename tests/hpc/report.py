"""Run by every rank of a job: prints its place and a sum over all ranks, as JSON."""

from __future__ import annotations

import json
import socket

import numpy as np

import horovod.numpy as hvd

hvd.init()
report = {
    "rank": hvd.rank(),
    "size": hvd.size(),
    "local_rank": hvd.local_rank(),
    "local_size": hvd.local_size(),
    "cross_rank": hvd.cross_rank(),
    "cross_size": hvd.cross_size(),
    "host": socket.gethostname(),
    "sum": int(hvd.allreduce(np.array([hvd.rank()]), op=hvd.Sum, name="sum")[0]),
}
print(json.dumps(report) + "\n", end="", flush=True)
hvd.shutdown()
