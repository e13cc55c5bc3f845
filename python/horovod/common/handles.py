"""The table of operations that were submitted and not yet synchronized.

An entry keeps the memory alive that the engine reads and writes, so it is only dropped once the
engine is done. A group of operations is one entry, under the handle of its first member. The entry
of an ordinary operation in place is nothing but the tensor: objects made for each of hundreds of
tensors would make Python collect garbage, and that takes longer than everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from horovod import _core
from horovod.common.exceptions import HorovodInternalError

Finish = Callable[[Any], Any]
"""Turns what the engine allocated (an `Output`, or None) into what the caller gets."""


class View(NamedTuple):
    """Memory of a contiguous tensor, as the engine sees it."""

    address: int
    dtype: int
    shape: Sequence[int]
    owner: object


class _Pending:
    """An operation, or a group of them. Made for each gradient of each step, hence the slots."""

    __slots__ = ("after", "finishes", "handles", "is_group", "outcomes", "views")

    def __init__(
        self,
        handles: Sequence[int],
        finishes: Sequence[Finish],
        views: Sequence[View],
        is_group: bool,
    ) -> None:
        self.handles = handles
        self.finishes = finishes
        self.views = views
        self.is_group = is_group
        # What is still to be done with the result.
        self.after: Callable[[Any], Any] | None = None
        # What the engine said of the first members: an `Output`, None, or an exception.
        self.outcomes: list[Any] = []

    def remaining(self) -> Sequence[int]:
        """The members that have not been waited for."""
        return self.handles[len(self.outcomes) :]

    def result(self) -> Any:
        """What the caller gets, when every member has succeeded."""
        results = [finish(outcome) for finish, outcome in zip(self.finishes, self.outcomes)]
        result = results if self.is_group else results[0]
        return result if self.after is None else self.after(result)


pending: dict[int, Any] = {}
"""What is pending by its handle: a `_Pending`, or the tensor that the operation changes."""


def remember(handle: int, finish: Finish, *views: View) -> int:
    """Keeps what an operation needs until it is synchronized; returns its handle."""
    pending[handle] = _Pending((handle,), (finish,), views, False)
    return handle


def remember_group(handles: Sequence[int], finishes: Sequence[Finish], views: list[View]) -> int:
    """Keeps what a group needs until it is synchronized; returns the handle for all of it."""
    pending[handles[0]] = _Pending(handles, finishes, views, True)
    return handles[0]


def then(handle: int, after: Callable[[Any], Any]) -> int:
    """Lets `synchronize` return what a function makes of the result; returns the handle."""
    tensor = entry = pending[handle]
    if type(entry) is not _Pending:
        entry = pending[handle] = _Pending((handle,), (lambda _: tensor,), (), False)
    entry.after = after
    return handle


_lost: frozenset[int] = frozenset()
"""Handles of the engine before that were not synchronized when the next one was started."""


def forget_all() -> None:
    """Drops every pending operation; only right when the engine has stopped."""
    global _lost
    if pending:
        _lost = frozenset(pending)
        pending.clear()


def _refuse_lost(handle: int) -> None:
    if handle in _lost:
        raise HorovodInternalError(
            f"horovod has been shut down before handle {handle} was synchronized; "
            "call hvd.init() again to go on"
        )


def poll(handle: int) -> bool:
    """Whether an operation has ended, so that `synchronize` would not wait."""
    entry = pending.get(handle)
    if entry is None:
        _refuse_lost(handle)
        raise ValueError(f"handle {handle} is unknown or was synchronized before")
    if type(entry) is not _Pending:
        return _core.poll(handle)
    return all(_core.poll(member) for member in entry.remaining())


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result; None if the handle is not known.

    An operation that was pending when horovod was shut down raises.

    Of a group every member is waited for, whatever becomes of the others, so that nothing of a
    group that failed is in flight any more. An interrupted wait can be taken up again.
    """
    entry = pending.get(handle)
    if type(entry) is _Pending:
        return _synchronize_all(handle, entry)
    if entry is not None:
        try:
            _core.wait(handle)
        except (HorovodInternalError, ValueError):
            pending.pop(handle, None)
            # The exception knows this frame: the tensor would live until the next collection.
            del entry
            raise
        pending.pop(handle, None)
    else:
        _refuse_lost(handle)
    return entry


def _synchronize_all(handle: int, entry: _Pending) -> Any:
    for member in entry.remaining():
        entry.outcomes.append(_outcome(member))
    pending.pop(handle, None)
    for failure in entry.outcomes:
        if isinstance(failure, Exception):
            try:
                raise failure
            finally:
                # The exception knows this frame: tensors would live until the next collection.
                del entry, failure
    return entry.result()


def _outcome(member: int) -> _core.Output | Exception | None:
    try:
        return _core.wait(member)
    except (HorovodInternalError, ValueError) as error:
        return error
