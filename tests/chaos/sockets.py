"""Cutting a connection of another process from outside, as a network would."""

from __future__ import annotations

import ctypes
import os
import random
import socket
from pathlib import Path

import traces

PIDFD_GETFD = 438
ESTABLISHED = "01"


def connections(pid: int) -> list[int]:
    """Descriptors of a process's established TCP connections."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == ESTABLISHED:
                inodes.add(int(fields[9]))
    return sorted(fd for fd, inode in traces.sockets(pid).items() if inode in inodes)


def sever_one_connection(pid: int, chance: random.Random) -> None:
    """Shuts one connection of a process down, in both directions, behind its back."""
    descriptor = chance.choice(connections(pid))
    process = os.pidfd_open(pid)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        copy = libc.syscall(PIDFD_GETFD, process, descriptor, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), "cannot borrow a socket of another process")
        with socket.socket(fileno=copy) as stream:
            stream.shutdown(socket.SHUT_RDWR)
    finally:
        os.close(process)
