"""Groups of operations between the frameworks and the engine: started together or not at all.

A group has one handle, which ends when all its members have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from horovod import _core
from horovod.common.collectives import check_adasum
from horovod.common.handles import Finish, View, remember_group
from horovod.common.process_sets import ProcessSet
from horovod.common.util import Adasum

Tensor = TypeVar("Tensor")


def tensor_list(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a group, of which there must be some."""
    listed = list(tensors)
    if not listed:
        raise ValueError("a group needs at least one tensor")
    return listed


def grouped_allreduce(
    sources: Sequence[View],
    targets: Sequence[View],
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
    finishes: Sequence[Finish],
) -> int:
    """Starts an allreduce from each source to its target; returns the group's handle."""
    if op == Adasum:
        check_adasum(process_set)
    handles = _core.grouped_allreduce(
        name,
        [source.address for source in sources],
        [target.address for target in targets],
        [source.dtype for source in sources],
        [source.shape for source in sources],
        op,
        *scaling,
        process_set,
    )
    return remember_group(handles, finishes, [*sources, *targets])


def grouped_allgather(
    sources: Sequence[View],
    name: str | None,
    process_set: ProcessSet,
    finishes: Sequence[Finish],
) -> int:
    """Starts an allgather of each source; returns the group's handle."""
    handles = _core.grouped_allgather(
        name,
        [source.address for source in sources],
        [source.dtype for source in sources],
        [source.shape for source in sources],
        process_set,
    )
    return remember_group(handles, finishes, list(sources))


def grouped_reducescatter(
    sources: Sequence[View],
    name: str | None,
    op: int,
    scaling: tuple[float, float],
    process_set: ProcessSet,
    finishes: Sequence[Finish],
) -> int:
    """Starts a reducescatter of each source; returns the group's handle."""
    handles = _core.grouped_reducescatter(
        name,
        [source.address for source in sources],
        [source.dtype for source in sources],
        [source.shape for source in sources],
        op,
        *scaling,
        process_set,
    )
    return remember_group(handles, finishes, list(sources))
