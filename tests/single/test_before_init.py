"""A process that has not called `init`: every operation says so and nothing is started."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import numpy as np
import pytest
import horovod.numpy as hvd
from horovod.common.exceptions import HorovodInternalError

array = np.ones(4)
assert not hvd.is_initialized()
for operation in (
    lambda: hvd.allreduce(array),
    lambda: hvd.allgather(array),
    lambda: hvd.broadcast(array, 0),
    lambda: hvd.alltoall(array),
    lambda: hvd.reducescatter(array),
    lambda: hvd.grouped_allreduce([array]),
    lambda: hvd.grouped_allgather([array]),
    lambda: hvd.grouped_reducescatter([array]),
    lambda: hvd.barrier(),
    lambda: hvd.join(),
    lambda: hvd.broadcast_object(1),
):
    with pytest.raises(HorovodInternalError, match="call hvd.init"):
        operation()
for question in (
    hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size,
    hvd.local_ranks, hvd.cross_ranks, hvd.is_homogeneous, hvd.stop_timeline,
):
    with pytest.raises(ValueError, match="init"):
        question()
hvd.shutdown()
hvd.init()
assert hvd.allreduce(array).sum() == 4
"""


def test_everything_asks_for_init_first() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
