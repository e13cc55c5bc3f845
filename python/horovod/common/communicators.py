"""Jobs and process sets from communicators of `mpi4py`, or from lists of ranks.

A communicator only says which processes belong together and passes rank 0's address and the job's
key on to them; tensors do not travel through it. `mpi4py` is not imported here: who has a
communicator has imported it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from horovod import _core
from horovod.common.exceptions import HorovodInternalError
from horovod.common.util import is_iterable, require_int

_job_communicator: Any = None
"""The communicator of this job, if it was made from one."""

_LENGTH_BYTES = 8
_POLL_SECONDS = 0.0005

_given_up: list[Any] = []
"""Requests that have not ended, and their buffers: MPI may still write to them."""


def is_communicator(candidate: object) -> bool:
    """Whether this is a communicator of `mpi4py`, or as good as one."""
    return all(hasattr(candidate, name) for name in ("Get_rank", "Get_group", "Ibcast"))


def join(comm: Any) -> list[Any]:
    """Joins the job that `init(comm=...)` means; returns communicators for process sets."""
    global _job_communicator
    if comm is None:
        _core.init()
        return []
    if is_communicator(comm):
        comm = [comm]
    if not is_iterable(comm) or isinstance(comm, str):
        raise ValueError(
            f"init(comm=...) takes a list of ranks or a communicator of mpi4py, not {comm!r}"
        )
    members = list(comm)
    if not members:
        _core.init()
        return []
    if not is_communicator(members[0]):
        _core.init(ranks=[require_int(rank, "a rank") for rank in members])
        return []
    if not all(is_communicator(member) for member in members):
        raise ValueError("init(comm=...) takes ranks or communicators, not both in one list")
    if not _core.is_initialized():
        _core.init(announced=_announced(members[0]))
        _job_communicator = members[0]
    return members[1:]


def _announced(comm: Any) -> tuple[int, int, str]:
    """Rank and size in a communicator, and what its rank 0 announces."""
    if not _belongs_to(comm):
        raise ValueError("init(comm=...) on a process that is not in the communicator")
    rank = comm.Get_rank()
    text = _core.announce() if rank == 0 else ""
    return rank, comm.Get_size(), _pass_on(comm, text)


def _pass_on(comm: Any, text: str) -> str:
    """What rank 0 passes, on every rank. `comm.bcast` would wait for a failed rank for ever."""
    deadline = time.monotonic() + _core.init_timeout()
    encoded = text.encode()
    length = bytearray(len(encoded).to_bytes(_LENGTH_BYTES, "little"))
    _broadcast(comm, length, deadline)
    content = bytearray(encoded or bytes(int.from_bytes(length, "little")))
    _broadcast(comm, content, deadline)
    return content.decode()


def _broadcast(comm: Any, buffer: bytearray, deadline: float) -> None:
    """Fills `buffer` with that of rank 0, before the deadline."""
    request = comm.Ibcast(buffer, root=0)
    while not request.Test():
        if time.monotonic() > deadline:
            _given_up.append((request, buffer))
            raise HorovodInternalError(
                f"rank {comm.Get_rank()} of {comm.Get_size()} in {comm!r} heard nothing of rank 0 "
                f"within {_core.init_timeout():.0f} s: not all of its ranks have called "
                "hvd.init(comm=...), or one has failed (look for its error); "
                "HOROVOD_GLOO_TIMEOUT_SECONDS is how long to wait"
            )
        time.sleep(_POLL_SECONDS)


def _belongs_to(comm: Any) -> bool:
    """Whether this process has a rank in a communicator: COMM_NULL has none."""
    return bool(comm)


def ranks_of(comm: Any) -> list[int]:
    """The ranks of a communicator's processes in this job; none for COMM_NULL."""
    if not _belongs_to(comm):
        return []
    group, job = comm.Get_group(), _communicator_of_job(comm).Get_group()
    ranks = type(group).Translate_ranks(group, list(range(group.Get_size())), job)
    if any(not 0 <= rank < _core.size() for rank in ranks):
        raise ValueError("the communicator has processes that are not in this job")
    return sorted(int(rank) for rank in ranks)


def _communicator_of_job(comm: Any) -> Any:
    """The one that the job was made from, else all processes that MPI knows."""
    if _job_communicator is not None:
        return _job_communicator
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if (world.Get_rank(), world.Get_size()) != (_core.rank(), _core.size()):
        raise ValueError(
            f"this process is rank {world.Get_rank()} of {world.Get_size()} for MPI but rank "
            f"{_core.rank()} of {_core.size()} for Horovod, so {comm!r} means nothing here; "
            "initialize Horovod with hvd.init(comm=MPI.COMM_WORLD)"
        )
    return world


def gather_sets(comms: Sequence[Any]) -> list[list[int]]:
    """The ranks of all communicators that any rank has passed, each once, in ascending order.

    A rank that is in none of a call's communicators passes COMM_NULL, or one of its own.
    """
    from horovod.common.objects import allgather_object

    everyone = allgather_object([ranks_of(comm) for comm in comms], "communicators")
    found = {tuple(ranks) for of_rank in everyone for ranks in of_rank if ranks}
    return [list(ranks) for ranks in sorted(found)]
