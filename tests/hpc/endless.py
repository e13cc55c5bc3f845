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


def report(name: str, text: str) -> None:
    """The file appears whole or not at all: the launcher may end this process at any moment."""
    new = folder / f"new.{name}"
    new.write_text(text)
    new.rename(folder / name)


hvd.init()
rank = hvd.rank()
array = np.ones(1000, np.float32)
for step in range(10**9):
    try:
        hvd.allreduce_(array, name="x", op=hvd.Average)
    except HorovodInternalError as error:
        report(f"error.{rank}", str(error))
        print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
        sys.exit(3)
    if step == 3:
        report(f"ready.{rank}", f"{os.getpid()} {socket.gethostname()}")
