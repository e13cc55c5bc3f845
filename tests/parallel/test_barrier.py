"""Barrier: no rank leaves before all have arrived, and other operations are not disturbed."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from frameworks import Framework, assert_equal, everyones, mine


def test_nobody_leaves_early(framework: Framework) -> None:
    hvd = framework.hvd
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(tempfile.TemporaryDirectory()) if hvd.rank() == 0 else None
        directory = Path(hvd.broadcast_object(own))
        for turn in range(10):
            (directory / f"{turn}.{hvd.rank()}").touch()
            hvd.barrier()
            assert all((directory / f"{turn}.{rank}").exists() for rank in range(hvd.size()))
        hvd.barrier()


def test_amid_other_operations(framework: Framework) -> None:
    hvd = framework.hvd
    handles = []
    for n in range(10):
        handles.append(hvd.allreduce_async(mine(framework, (n,)), name=str(n), op=hvd.Sum))
        hvd.barrier()
    for n, handle in enumerate(handles):
        assert_equal(framework, hvd.synchronize(handle), everyones((n,)).sum(axis=0))
