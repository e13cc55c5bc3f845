"""What the environment says about a process's place in its job. For programs that import this from
upstream; in a program that calls `hvd.init()`, ask `hvd.rank()` and `hvd.size()`.
"""

from __future__ import annotations

import os

_VARIABLES = [
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
]


def get_env_rank_and_size() -> tuple[int, int]:
    """Returns rank and size as a launcher has set them; 0 and 1 without a launcher."""
    for rank, size in _VARIABLES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
