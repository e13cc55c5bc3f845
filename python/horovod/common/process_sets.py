"""Process sets: which ranks take part in an operation.

The engine knows a set by a number, which is the same on every rank. An object here gets its number
when it is registered and loses it when the set is removed or this process leaves the job.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from horovod import _core
from horovod.common import communicators
from horovod.common.util import is_iterable, require_count, require_int

GLOBAL_ID = 0


class ProcessSet:
    """A set of ranks, in ascending order."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: object | None = None

    def __init__(self, ranks_or_comm: Any) -> None:
        if communicators.is_communicator(ranks_or_comm):
            # Its ranks in the job are known once the set is registered.
            self.mpi_comm = ranks_or_comm
            return
        if not is_iterable(ranks_or_comm):
            raise ValueError(
                "a process set is described by a list of ranks or a communicator of mpi4py, "
                f"not by {ranks_or_comm!r}"
            )
        self.ranks = sorted(require_int(rank, "a rank") for rank in ranks_or_comm)

    def size(self) -> int | None:
        """Number of ranks; None while the set is not registered."""
        return None if self.process_set_id is None else set_size(self)

    def rank(self) -> int | None:
        """Rank of this process in the set; None while the set is not registered.

        Raises ValueError if this process is not in the set.
        """
        return None if self.process_set_id is None else set_rank(self)

    def included(self) -> bool | None:
        """Whether this process is in the set; None if the ranks are not known yet."""
        return None if self.ranks is None else _core.rank() in self.ranks

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )

    __repr__ = __str__


_registered: weakref.WeakSet[ProcessSet] = weakref.WeakSet()
"""The objects that have a number, without the global set."""


def _global() -> ProcessSet:
    process_set = ProcessSet([])
    process_set.process_set_id = GLOBAL_ID
    process_set.ranks = None
    return process_set


global_process_set = _global()
"""All ranks of the job. Its ranks are known after `init`."""


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a set of ranks and returns it. Every rank of the job must do so, member or not.

    Communicators of `mpi4py` may differ from rank to rank, as those of `Split` do: the sets of all
    of them are registered. Raises ValueError if such a set exists already or sets can only be given
    to `init`.
    """
    described = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    _require_dynamic("added")
    if described.mpi_comm is not None:
        register_communicators([described])
        return described
    _register(described, _core.add_process_set(_checked_ranks(described)))
    return described


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set that was registered. Every rank of the job must do so, member or not.

    Operations that are pending on the set fail. Returns False if there was nothing to remove: the
    set was not registered, or is the global one.
    """
    number = _checked(process_set).process_set_id
    if number is None or number == GLOBAL_ID:
        return False
    _require_dynamic("removed")
    _core.remove_process_set(number)
    for registered in list(_registered):
        if registered.process_set_id == number:
            _unregister(registered)
    return True


def register_communicators(described: Sequence[ProcessSet]) -> None:
    """Registers the sets of the communicators that all ranks pass, in the same order everywhere."""
    if not described:
        return
    existing = {
        tuple(_core.process_set_ranks(number)): number for number in _core.process_set_ids()
    }
    for ranks in communicators.gather_sets([process_set.mpi_comm for process_set in described]):
        if tuple(ranks) not in existing:
            existing[tuple(ranks)] = _core.add_process_set(ranks)
    for process_set in described:
        process_set.ranks = communicators.ranks_of(process_set.mpi_comm)
        if process_set.ranks:
            _register(process_set, existing[tuple(process_set.ranks)])


def register_static(process_sets: Sequence[ProcessSet]) -> None:
    """Registers the sets given to `init`; an object for a set that exists gets its number.

    A set given twice, or equal to the global one, is an error, and then none is registered.
    """
    existing = {
        tuple(_core.process_set_ranks(number)): number for number in _core.process_set_ids()
    }
    all_ranks = tuple(_core.process_set_ranks(GLOBAL_ID))
    wanted = [tuple(_checked_ranks(process_set)) for process_set in process_sets]
    for index, ranks in enumerate(wanted):
        if ranks == all_ranks or ranks in wanted[:index]:
            raise ValueError(
                f"process_sets[{index}] has the same ranks {list(ranks)} as "
                f"{'the global process set' if ranks == all_ranks else 'one before it'}"
            )
    for process_set, ranks in zip(process_sets, wanted):
        number = existing.get(ranks)
        _register(process_set, _core.add_process_set(ranks) if number is None else number)


def forget_all() -> None:
    """Makes every set unregistered, because this process is in no job any more."""
    for process_set in list(_registered):
        _unregister(process_set)
    global_process_set.ranks = None


def usable_id(process_set: ProcessSet) -> int:
    """The number by which the engine knows a set."""
    number = _checked(process_set).process_set_id
    if number is None:
        raise ValueError(
            f"{process_set} must be registered first: pass it to hvd.init(process_sets=[...]) "
            "or to hvd.add_process_set()"
        )
    return number


def registered_set(number: int) -> ProcessSet:
    """The set with a number; ValueError if there is none."""
    for process_set in (global_process_set, *_registered):
        if process_set.process_set_id == number:
            return process_set
    raise ValueError(f"there is no process set with the number {number}")


def set_size(process_set: ProcessSet) -> int:
    """Number of ranks of a registered set."""
    return len(_core.process_set_ranks(usable_id(process_set)))


def set_rank(process_set: ProcessSet) -> int:
    """Rank of this process in a registered set; ValueError if it is no member."""
    members = _core.process_set_ranks(usable_id(process_set))
    rank = _core.rank()
    if rank not in members:
        raise ValueError(f"rank {rank} is not in {process_set}, so it has no rank there")
    return members.index(rank)


def _register(process_set: ProcessSet, number: int) -> None:
    process_set.process_set_id = number
    _registered.add(process_set)


def _unregister(process_set: ProcessSet) -> None:
    process_set.process_set_id = None
    _registered.discard(process_set)


def _require_dynamic(what: str) -> None:
    if not _core.dynamic_process_sets():
        raise ValueError(
            f"process sets can be {what} after init only if HOROVOD_DYNAMIC_PROCESS_SETS=1 is set "
            'on every rank before it, or with hvd.init(process_sets="dynamic")'
        )


def _checked(process_set: ProcessSet) -> ProcessSet:
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"expected a ProcessSet, not {process_set!r}")
    return process_set


def _checked_ranks(process_set: ProcessSet) -> list[int]:
    ranks = _checked(process_set).ranks or []
    return [require_count(rank, "a rank") for rank in ranks]


def __getattr__(name: str) -> object:
    """What upstream has here too; not imported above, because it needs this module."""
    if name in ("HorovodBasics", "_basics"):
        from horovod.common import basics

        return getattr(basics, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
