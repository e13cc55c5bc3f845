"""Notifications of host changes in an elastic job, from their source to the states that listen.

An elastic launcher's side of a worker calls `manager.set_source` once, with a function that starts
to listen to the launcher, and from then on `manager.handle_hosts_updated`, from any thread. Without
a source there are no notifications.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol


class Listener(Protocol):
    """Receives notifications of host changes."""

    def on_hosts_updated(self, timestamp: Any, update_res: int) -> None:
        """Called with the time and the kind of a change."""


class WorkerNotificationManager:
    """Starts the source when it is first needed, and forwards notifications to listeners."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._source: Callable[[], None] | None = None
        self._started = False
        self._listeners: list[Listener] = []

    def set_source(self, start: Callable[[], None] | None) -> None:
        """Sets the function that starts listening to the launcher; None for no source."""
        with self._lock:
            self._source = start
            self._started = False

    def init(self) -> None:
        """Starts the source, once, if there is one."""
        with self._lock:
            start = None if self._started else self._source
            self._started = True
        if start is not None:
            start()

    def register_listener(self, listener: Listener) -> None:
        """Adds a listener."""
        with self._lock:
            self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Removes a listener, if it was registered."""
        with self._lock:
            self._listeners = [each for each in self._listeners if each is not listener]

    def handle_hosts_updated(self, timestamp: Any, update_res: int) -> None:
        """Notifies all listeners."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = WorkerNotificationManager()
