"""Training that goes on when the ranks of a job change: what to keep, and the loop around it.

A state holds what must survive. It is saved in memory, never on disk, and rank 0's copy is the one
that counts. `run_fn` calls the training function again after ranks were assigned anew.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from horovod.common import basics
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.notifications import WorkerNotificationManager, notification_manager

__all__ = [
    "HorovodInternalError",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "WorkerNotificationManager",
    "is_elastic",
    "notification_manager",
    "recognized_failures",
    "rejoin",
    "run",
    "run_fn",
]


class HostUpdateResult:
    """What happened to the hosts of a job; kinds are combined by `|`."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class State:
    """What must survive. Subclasses say how it is saved, restored and made equal to rank 0's.

    `bcast_object` returns rank 0's object on every rank; `get_rank` is kept for subclasses.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.SimpleQueue[tuple[Any, int]] = queue.SimpleQueue()
        self._last_updated_timestamp: Any = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Functions to call, in this order, whenever ranks were assigned anew."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Ranks were assigned anew: what was said about hosts before is out of date."""
        self._host_messages = queue.SimpleQueue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: Any, update_res: int) -> None:
        """Records a change of hosts for the next `check_host_updates`, from any thread."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, and interrupts the training if the hosts have changed.

        All ranks must commit equally often.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks alike, if rank 0 knows of a change."""
        before = last = self._last_updated_timestamp
        kinds = HostUpdateResult.no_update
        for timestamp, kind in self._messages():
            # Compared with what was known before: two changes may have the same time.
            if timestamp > before:
                last = max(last, timestamp)
                kinds |= kind
        before, last, kinds = self._bcast_object((before, last, kinds))
        self._last_updated_timestamp = last
        if last > before:
            raise HostsUpdatedInterrupt(kinds == HostUpdateResult.removed)

    def _messages(self) -> list[tuple[Any, int]]:
        messages = []
        while True:
            try:
                messages.append(self._host_messages.get_nowait())
            except queue.Empty:
                return messages

    def save(self) -> None:
        """Keeps the state as it is now, in memory."""
        raise NotImplementedError(f"{type(self).__name__} must define save()")

    def restore(self) -> None:
        """Goes back to what was saved last."""
        raise NotImplementedError(f"{type(self).__name__} must define restore()")

    def sync(self) -> None:
        """Makes the state of every rank equal to rank 0's, and saves it."""
        raise NotImplementedError(f"{type(self).__name__} must define sync()")

    def reset(self) -> None:
        """Adapts the state to ranks that were assigned anew; before the callbacks."""


class ObjectState(State):
    """Attributes that survive: counters, for example. Values are kept by reference, not copied,
    so one that changes in place cannot be restored.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state = dict(kwargs)
        self._set_attributes()

    def save(self) -> None:
        """Keeps the attributes as they are now."""
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        """Sets the attributes to what was saved last."""
        self._set_attributes()

    def sync(self) -> None:
        """Sets the attributes to rank 0's, as they are now, and saves them."""
        self.save()
        if self._saved_state:
            self._saved_state = dict(self._bcast_object(self._saved_state))
            self._set_attributes()

    def _set_attributes(self) -> None:
        for name, value in list(self._saved_state.items()):
            setattr(self, name, value)


def is_elastic() -> bool:
    """Whether this process was started by an elastic launcher, which can replace ranks."""
    return os.environ.get("HOROVOD_ELASTIC") == "1"


def rejoin() -> None:
    """Leaves the job and joins it again, with the place that this process has now."""
    basics.shutdown()
    basics.init()


@contextlib.contextmanager
def recognized_failures(is_failure: Callable[[Exception], bool]) -> Iterator[None]:
    """Turns a framework's own error for a failed operation into HorovodInternalError."""
    try:
        yield
    except Exception as error:
        if isinstance(error, HorovodInternalError) or not is_failure(error):
            raise
        raise HorovodInternalError(str(error)) from error


def run(
    func: Callable[..., Any],
    is_failure: Callable[[Exception], bool] = lambda error: False,
    reset: Callable[[], None] = rejoin,
) -> Callable[..., Any]:
    """Makes `func(state, ...)` go on after ranks were lost or hosts have changed.

    A job that was not started elastically cannot replace a rank: there a failure is raised, with
    a sentence about that. `is_failure` recognizes errors by which a framework reports one; `reset`
    leaves the job and joins it again.
    """

    @functools.wraps(func)
    def recognizing(*args: Any, **kwargs: Any) -> Any:
        with recognized_failures(is_failure):
            return func(*args, **kwargs)

    return run_fn(recognizing, reset, is_elastic)


def run_fn(
    func: Callable[..., Any],
    reset: Callable[[], None],
    can_recover: Callable[[], bool] = lambda: True,
) -> Callable[..., Any]:
    """A function of a state that calls `func` until it returns, and `reset` in between.

    After HorovodInternalError the state is restored; if `can_recover` says no, the error is raised.
    After HostsUpdatedInterrupt it goes on from where it is. Any other exception is raised.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        notification_manager.init()
        notification_manager.register_listener(state)
        skip_sync = False
        try:
            while True:
                try:
                    if not skip_sync:
                        state.sync()
                    return func(state, *args, **kwargs)
                except HorovodInternalError as error:
                    if not can_recover():
                        raise _beyond_recovery(error) from error
                    state.restore()
                    skip_sync = False
                except HostsUpdatedInterrupt as interrupt:
                    skip_sync = interrupt.skip_sync
                reset()
                state.on_reset()
        finally:
            notification_manager.remove_listener(state)

    return wrapper


def _beyond_recovery(error: HorovodInternalError) -> HorovodInternalError:
    return HorovodInternalError(
        f"{error}; elastic.run cannot replace ranks here, because this job was not started with "
        "elastic options (HOROVOD_ELASTIC is not 1, to which an elastic launcher sets it)"
    )
