"""Run by every rank: reduces for ever, and reports the error that ends this.

    endless.py FOLDER    # writes FOLDER/ready.RANK, then perhaps FOLDER/error.RANK

Files and not the standard output: a launcher that ends a job may throw away what is still to print.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import numpy as np

import horovod.numpy as hvd
from horovod.common.exceptions import HorovodInternalError

folder = Path(sys.argv[1])
hvd.init()
rank = hvd.rank()
array = np.ones(1000, np.float32)
for step in range(10**9):
    try:
        hvd.allreduce_(array, name="x", op=hvd.Average)
    except HorovodInternalError as error:
        (folder / f"error.{rank}").write_text(str(error))
        print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
        sys.exit(3)
    if step == 3:
        new = folder / f"new.{rank}"
        new.write_text(f"{os.getpid()} {socket.gethostname()}")
        new.rename(folder / f"ready.{rank}")
