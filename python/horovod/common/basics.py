"""Joining and leaving the job; the rank, size and hosts that a process can query."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from horovod import _core
from horovod.common import build, communicators, handles, util
from horovod.common import process_sets as sets
from horovod.common.objects import allgather_object
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import is_iterable

_callbacks_registered = False
_waits: list[Callable[[float | None], None]] = []
_SECONDS_WITHOUT_PROGRESS = 60.0


class JobPosition(NamedTuple):
    """Ranks and sizes of this process in its job."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    local_ranks: tuple[int, ...]
    cross_ranks: tuple[int, ...]
    is_homogeneous: bool


_position: JobPosition | None = None
"""Kept here and not asked of the engine each time: `torch.compile` can look at a Python value, take
it for a constant, and compile anew when it has changed."""


def init(comm: Any = None, process_sets: str | Sequence[ProcessSet] | None = None) -> None:
    """Joins the job that a launcher started this process for; does nothing if this was done before.

    Launchers are `horovodrun`, `mpirun`, `srun`, `torchrun` and others; without one this process
    becomes a job of its own, with one rank. `comm` makes a job of some of the processes: a list of
    their ranks, or a communicator of `mpi4py`. With a list of communicators the first one is the
    job, and the others become process sets. `process_sets` are registered, and must be the same on
    every rank; "dynamic" allows them to be added and removed later.
    """
    static_sets = _static_sets(process_sets)
    if not _core.is_initialized():
        _forget_all()
        if isinstance(process_sets, str):
            os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    more = communicators.join(comm)
    _read_position()
    _register_callbacks()
    if more:
        sets.register_communicators([ProcessSet(communicator) for communicator in more])
    if static_sets:
        _register_static(static_sets)


def _register_static(static_sets: list[ProcessSet]) -> None:
    """Registers the sets that were given to `init`, those of communicators first."""
    sets.register_communicators([one for one in static_sets if one.mpi_comm is not None])
    of_ranks = [one for one in static_sets if one.mpi_comm is None]
    if of_ranks:
        _require_agreement(of_ranks)
        sets.register_static(of_ranks)


def _read_position() -> None:
    global _position
    _position = JobPosition(
        _core.rank(),
        _core.size(),
        _core.local_rank(),
        _core.local_size(),
        _core.cross_rank(),
        _core.cross_size(),
        tuple(_core.local_ranks()),
        tuple(_core.cross_ranks()),
        _core.is_homogeneous(),
    )
    global_process_set.ranks = list(range(_position.size))


def _static_sets(process_sets: Any) -> list[ProcessSet]:
    """The sets to register; none if sets are to be added later."""
    if process_sets is None or (
        isinstance(process_sets, str) and process_sets.lower() == "dynamic"
    ):
        return []
    static_sets = list(process_sets) if is_iterable(process_sets) else [process_sets]
    if isinstance(process_sets, str) or not all(isinstance(s, ProcessSet) for s in static_sets):
        raise ValueError(
            'init(process_sets=...) takes a list of ProcessSet objects or "dynamic", '
            f"not {process_sets!r}"
        )
    return static_sets


def _require_agreement(static_sets: list[ProcessSet]) -> None:
    """Raises ValueError on every rank if they do not all want the same sets, in the same order."""
    wanted = allgather_object([process_set.ranks for process_set in static_sets], "init")
    for rank, other in enumerate(wanted):
        if other != wanted[0]:
            raise ValueError(
                "every rank must pass the same process_sets to init: those of rank 0 have the "
                f"ranks {wanted[0]}, those of rank {rank} have {other}"
            )


def _register_callbacks() -> None:
    global _callbacks_registered
    if not _callbacks_registered:
        atexit.register(_shutdown_at_exit)
        os.register_at_fork(after_in_child=_after_fork_in_child)
        _callbacks_registered = True


def _after_fork_in_child() -> None:
    _core.after_fork_in_child()
    _forget_all()


def before_leaving(wait: Callable[[float | None], None]) -> None:
    """Has `shutdown`, and the end of a program without an exception, wait for a framework first.

    `wait` is given the seconds without progress after which it gives up; None for none.
    """
    if wait not in _waits:
        _waits.append(wait)


def _wait_for_frameworks(limit: float | None) -> None:
    if _core.is_initialized():
        for wait in _waits:
            wait(limit)


def shutdown() -> None:
    """Leaves the job. Operations that have not ended fail, here and on the other ranks."""
    _wait_for_frameworks(_SECONDS_WITHOUT_PROGRESS)
    _core.shutdown()
    # Handles stay until the next init(): other threads may be about to synchronize them.
    _clear_position()


def _shutdown_at_exit() -> None:
    """Leaves the job at the end of the program, saying so if an exception ended it."""
    error = _uncaught_exception()
    if not error:
        _wait_for_frameworks(None)
    _core.shutdown(error)
    _core.leave_launcher()
    _forget_all()
    # mpi4py finalizes MPI after this, which would wait for a rank that has failed.
    sys.stdout.flush()
    sys.stderr.flush()
    _core.abort_mpi_if_failed()


def _forget_all() -> None:
    _clear_position()
    handles.forget_all()


def _clear_position() -> None:
    global _position
    _position = None
    sets.forget_all()


def _uncaught_exception() -> str | None:
    """The exception that ends this program, in one line; None if it ends well.

    The interpreter keeps an uncaught exception in `sys` before it prints it. An interactive session
    does so too and goes on, so there nothing is said.
    """
    exception = getattr(sys, "last_value", None)
    if exception is None or hasattr(sys, "ps1"):
        return None
    text = " ".join(f"{type(exception).__name__}: {exception}".split())
    return text if len(text) <= 200 else text[:200] + " ..."


def is_initialized() -> bool:
    """Whether `init` was called and `shutdown` was not called since."""
    return _position is not None


def _initialized() -> JobPosition:
    if _position is None:
        raise ValueError("Horovod has not been initialized; call hvd.init() first")
    return _position


def size() -> int:
    """Number of processes of the job."""
    return _initialized().size


def local_size() -> int:
    """Number of processes of the job on this host."""
    return _initialized().local_size


def cross_size() -> int:
    """Number of hosts that have a process with this process's local rank."""
    return _initialized().cross_size


def rank() -> int:
    """Number of this process in the job, from 0."""
    return _initialized().rank


def local_rank() -> int:
    """Number of this process among those on its host, from 0."""
    return _initialized().local_rank


def cross_rank() -> int:
    """Number of this process's host among those with a process of this local rank, from 0."""
    return _initialized().cross_rank


def local_ranks() -> list[int]:
    """Ranks of the processes on this host; position i has local rank i."""
    return list(_initialized().local_ranks)


def cross_ranks() -> list[int]:
    """Ranks of the processes with this process's local rank; position i has cross rank i.

    A host with fewer processes than that is not among them.
    """
    return list(_initialized().cross_ranks)


def is_homogeneous() -> bool:
    """Whether every host runs the same number of processes."""
    return _initialized().is_homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Starts to write the timeline of this job to a file, on rank 0.

    HOROVOD_TIMELINE must have been set before `init`, to `DYNAMIC` or to a file. A file that is
    being written is completed first.
    """
    _initialized()
    _core.start_timeline(os.fspath(file_path), mark_cycles)


def stop_timeline() -> None:
    """Completes the timeline's file. Harmless if none is being written."""
    _initialized()
    _core.stop_timeline()


def mpi_threads_supported() -> bool:
    """Whether MPI, if this job uses it, may be called from several threads at once."""
    _initialized()
    return _core.mpi_threads_supported()


def mpi_enabled() -> bool:
    """Whether HOROVOD_CPU_OPERATIONS or HOROVOD_CONTROLLER chose MPI for this job."""
    return _core.mpi_enabled()


def gloo_enabled() -> bool:
    """Whether the native transport is in use, which answers to this name."""
    return True


def counters() -> dict[str, int]:
    """What this process's engine has done since `init`, in numbers.

    `negotiation_messages` counts the messages sent to negotiate operations, `negotiated_operations`
    the operations executed after negotiation. A step that repeats follows a schedule instead
    (`schedules`): its operations (`scheduled_operations`) need no negotiation, only one notice each
    that this rank is ready (`ready_notices`). `connections` is the number of connections to ranks
    of other hosts; they are made when they are first needed.
    """
    _initialized()
    return _core.counters()


class HorovodBasics:
    """The functions above and the reductions as one object, which programs know from upstream.

    Upstream's loads an extension module by a path; here there is one, so arguments mean nothing.
    """

    Average = util.Average
    Sum = util.Sum
    Adasum = util.Adasum
    Min = util.Min
    Max = util.Max
    Product = util.Product

    init = staticmethod(init)
    shutdown = staticmethod(shutdown)
    is_initialized = staticmethod(is_initialized)
    start_timeline = staticmethod(start_timeline)
    stop_timeline = staticmethod(stop_timeline)
    size = staticmethod(size)
    local_size = staticmethod(local_size)
    cross_size = staticmethod(cross_size)
    rank = staticmethod(rank)
    local_rank = staticmethod(local_rank)
    cross_rank = staticmethod(cross_rank)
    is_homogeneous = staticmethod(is_homogeneous)
    mpi_threads_supported = staticmethod(mpi_threads_supported)
    mpi_enabled = staticmethod(mpi_enabled)
    gloo_enabled = staticmethod(gloo_enabled)
    mpi_built = staticmethod(build.mpi_built)
    gloo_built = staticmethod(build.gloo_built)
    nccl_built = staticmethod(build.nccl_built)
    ddl_built = staticmethod(build.ddl_built)
    ccl_built = staticmethod(build.ccl_built)
    cuda_built = staticmethod(build.cuda_built)
    rocm_built = staticmethod(build.rocm_built)

    def __init__(self, pkg_path: str = "", *args: str) -> None:
        pass


_basics = HorovodBasics()
