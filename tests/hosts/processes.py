"""The processes of a host, found and ended from outside.

A process is on a host if its mount namespace is the host's. The namespaces of a cluster are those
that have its scratch directory mounted, as the mount table of at least one member shows: a process
in a chroot, as a part of sshd is, sees nothing of it, but the host's holder always does.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process as `/proc` shows it."""

    pid: int
    command: str


def inside(directory: Path) -> list[Process]:
    """The processes whose mount namespace has `directory`, or one below it, mounted."""
    return [
        Process(pid, _command(pid))
        for pids in _by_mount_namespace().values()
        if any(_sees(pid, directory) for pid in pids)
        for pid in pids
    ]


def kill_inside(directory: Path, timeout: float = 10) -> None:
    """Kills until no process is left: what is killed first may have forked just before."""
    end = time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        spaces = set()
        for process in inside(directory):
            with contextlib.suppress(OSError):
                # While it is open, its number goes to no other namespace.
                file = os.open(f"/proc/{process.pid}/ns/mnt", os.O_RDONLY)
                stack.callback(os.close, file)
                spaces.add(os.fstat(file).st_ino)
        while left := [pid for pid in _pids() if _mount_namespace(pid) in spaces]:
            if time.monotonic() > end:
                raise RuntimeError(f"these processes do not end: {left}")
            _kill_all(left, spaces, end)


def _kill_all(pids: Iterable[int], spaces: set[int], end: float) -> None:
    with contextlib.ExitStack() as stack:
        killed = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                file = os.pidfd_open(pid)
                stack.callback(os.close, file)
                # The number may have gone to another process before it was pinned.
                if _mount_namespace(pid) in spaces:
                    signal.pidfd_send_signal(file, signal.SIGKILL)
                    killed.append(file)
        for file in killed:
            wait_ended(file, end)


def wait_ended(file: int, end: float) -> bool:
    """Waits until the process behind a pidfd has ended, or until `end`."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(max(0, (end - time.monotonic()) * 1000)))


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _by_mount_namespace() -> dict[int, list[int]]:
    members: dict[int, list[int]] = {}
    for pid in _pids():
        if space := _mount_namespace(pid):
            members.setdefault(space, []).append(pid)
    # Whatever is mounted where, the caller's own machine is none of its hosts.
    members.pop(os.stat("/proc/self/ns/mnt").st_ino)
    return members


def _mount_namespace(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:  # gone, or a zombie
        return None


def _sees(pid: int, directory: Path) -> bool:
    try:
        mounts = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace")
    except OSError:
        return False
    return f" {directory} " in mounts or f" {directory}/" in mounts


def _command(pid: int) -> str:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(arguments).decode(errors="replace").strip()
