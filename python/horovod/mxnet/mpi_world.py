"""MPI of programs that leave its initialization to Horovod.

Upstream initializes MPI, so programs that use mpi4py as well import it with `rc.initialize` false
before `hvd.init()`; Sockeye takes an initialized MPI for the sign that it runs with Horovod. So
`hvd.init()` initializes it here, too, and finalizes it at exit.

Only `mpirun` makes one world of all ranks. Ranks that something else has started are each alone for
MPI, and a program that lets rank 0 decide something and passes it on by `COMM_WORLD.bcast` would go
on with different decisions, silently. There `COMM_WORLD` becomes one whose Python objects travel
through Horovod, and whose other methods raise.
"""

from __future__ import annotations

import atexit
import functools
import sys
from typing import Any

from horovod.common import basics
from horovod.common.objects import allgather_object, broadcast_object


def initialize() -> Any:
    """Initializes MPI if the program has imported mpi4py and left that to Horovod; returns MPI."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or mpi.Is_initialized() or mpi.Is_finalized():
        return None
    mpi.Init_thread()
    atexit.register(_finalize, mpi)
    return mpi


def _finalize(mpi: Any) -> None:
    # After a failure the others may never come: their launcher is to end them.
    if not mpi.Is_finalized() and basics._uncaught_exception() is None:
        mpi.Finalize()


def connect(mpi: Any) -> None:
    """Makes `COMM_WORLD` the job's, if MPI does not know the job's ranks."""
    world = mpi.COMM_WORLD
    if (world.Get_rank(), world.Get_size()) == (basics.rank(), basics.size()):
        return
    if world.Get_size() > 1:
        raise ValueError(
            f"this process is rank {world.Get_rank()} of {world.Get_size()} for MPI but rank "
            f"{basics.rank()} of {basics.size()} for Horovod; "
            "initialize Horovod with hvd.init(comm=MPI.COMM_WORLD)"
        )
    mpi.COMM_WORLD = _world_class(mpi)(world)


_OBJECT_METHODS = frozenset(
    (
        *("Get_rank", "Get_size", "Get_name", "rank", "size", "name", "handle", "py2f", "Abort"),
        *("bcast", "gather", "allgather", "scatter", "reduce", "allreduce", "barrier", "Barrier"),
    )
)


def _world_class(mpi: Any) -> type:
    class HorovodWorld(mpi.Intracomm):
        """All ranks of the job. Python objects travel through Horovod, nothing else does."""

        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("_") and name not in _OBJECT_METHODS:
                raise NotImplementedError(
                    f"COMM_WORLD.{name} needs ranks that MPI has started; here only Python objects "
                    "travel, through Horovod: start the job with mpirun or horovodrun --mpi"
                )
            return super().__getattribute__(name)

        def Get_rank(self) -> int:
            return basics.rank()

        def Get_size(self) -> int:
            return basics.size()

        rank = property(Get_rank)
        size = property(Get_size)

        def bcast(self, obj: Any, root: int = 0) -> Any:
            return broadcast_object(obj, root, "mpi.bcast")

        def allgather(self, sendobj: Any) -> list[Any]:
            return allgather_object(sendobj, "mpi.allgather")

        def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
            everything = self.allgather(sendobj)
            return everything if basics.rank() == root else None

        def scatter(self, sendobj: Any, root: int = 0) -> Any:
            return self.bcast(sendobj, root)[basics.rank()]

        def allreduce(self, sendobj: Any, op: Any = mpi.SUM) -> Any:
            return functools.reduce(op, self.allgather(sendobj))

        def reduce(self, sendobj: Any, op: Any = mpi.SUM, root: int = 0) -> Any:
            result = self.allreduce(sendobj, op)
            return result if basics.rank() == root else None

        def barrier(self) -> None:
            self.allgather(None)

        Barrier = barrier

    return HorovodWorld
