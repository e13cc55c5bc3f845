"""A queue of limited length between two threads that either of them can end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any


class BoundedQueue:
    """Unlike `queue.Queue`, closing it wakes threads that wait for room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[Any] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: Any) -> bool:
        """Waits for room; False, without adding anything, if the queue was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._limit)
            if not self._closed:
                self._items.append(item)
                self._changed.notify_all()
            return not self._closed

    def put_all(self, items: Iterable[Any]) -> bool:
        """Puts one after the other; False if the queue was closed meanwhile."""
        return all(self.put(item) for item in items)

    def get(self) -> Any:
        """Waits for an item. Only for the thread that closes the queue, or while it is open."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._items))
            self._changed.notify_all()
            return self._items.popleft()

    def close(self) -> None:
        """Drops everything and refuses more."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()
