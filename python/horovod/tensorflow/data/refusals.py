"""Logs refused connections, as the listening ports of the core do: the first at once, then at most
one line per minute with their number, so that a flood of connections does not flood the log too.

Owns the count of one port. Must not decide which connections are refused.
"""

from __future__ import annotations

import logging
import threading
import time

INTERVAL_SECONDS = 60.0
"""How often a line is written."""

_log = logging.getLogger(__name__)


class Refusals:
    """Counts the connections to one port that did not prove the key."""

    def __init__(self, port_name: str) -> None:
        self._port_name = port_name
        self._lock = threading.Lock()
        self._number = 0
        """Those since the last line."""
        self._last = ""
        self._reported: float | None = None

    def refuse(self, peer: str, reason: str) -> None:
        """A connection from `peer` did not prove the key."""
        with self._lock:
            self._number += 1
            self._last = f"{peer}: {reason}"
            now = time.monotonic()
            if self._reported is not None and now - self._reported < INTERVAL_SECONDS:
                return
            self._reported = now
            self._report()

    def close(self) -> None:
        """Reports the rest, at the end of the port."""
        with self._lock:
            if self._number > 0:
                self._report()

    def _report(self) -> None:
        number, self._number = self._number, 0
        connections = "connection" if number == 1 else "connections"
        the_last = "" if number == 1 else "the last one "
        _log.warning(
            "%s: %d %s did not prove the job's key and could do nothing; %sfrom %s",
            self._port_name,
            number,
            connections,
            the_last,
            self._last,
        )
