"""Process sets: which ranks take part in an operation.

Only the set of all ranks exists so far. Other sets can be described but not registered.
"""

from __future__ import annotations

from collections.abc import Iterable

from horovod import _core
from horovod.common.util import is_iterable, require_int

GLOBAL_ID = 0


class ProcessSet:
    """A set of ranks, in ascending order."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: object | None = None

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if not is_iterable(ranks_or_comm):
            raise ValueError(
                "a process set is described by a list of ranks; this build has no MPI, "
                f"so it cannot use {ranks_or_comm!r}"
            )
        self.ranks = sorted(require_int(rank, "a rank") for rank in ranks_or_comm)

    def size(self) -> int | None:
        """Number of ranks; None while the set is not registered."""
        return None if self.process_set_id is None else _core.size()

    def rank(self) -> int | None:
        """Rank of this process in the set; None while the set is not registered."""
        return None if self.process_set_id is None else _core.rank()

    def included(self) -> bool | None:
        """Whether this process is in the set; None if the ranks are not known yet."""
        return None if self.ranks is None else _core.rank() in self.ranks

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )

    __repr__ = __str__


def _global() -> ProcessSet:
    process_set = ProcessSet([])
    process_set.process_set_id = GLOBAL_ID
    process_set.ranks = None
    return process_set


global_process_set = _global()
"""All ranks of the job. Its ranks are known after `init`."""


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a process set. Not possible yet."""
    described = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    raise _not_implemented(described)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a registered process set; False because no set that could be removed exists yet."""
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"expected a ProcessSet, not {process_set!r}")
    return False


def usable_id(process_set: ProcessSet) -> int:
    """The number by which the engine knows a set."""
    if process_set.process_set_id != GLOBAL_ID:
        raise _not_implemented(process_set)
    return GLOBAL_ID


def _not_implemented(process_set: ProcessSet) -> NotImplementedError:
    return NotImplementedError(
        f"{process_set} cannot be used: operations run on global_process_set only in this version"
    )
