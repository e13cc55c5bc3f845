"""What a job leaves on a machine, read from /proc: processes, sockets, files."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

LISTENING = "0A"
SHARED_MEMORY = Path("/dev/shm")


class Process(NamedTuple):
    """A process of the job."""

    pid: int
    parent: int
    rank: int | None


def processes(mark: str) -> list[Process]:
    """Every process that carries the mark in its environment, workers and launcher alike."""
    found = []
    needle = f"CHAOS_MARK={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            if needle in environment:
                found.append(Process(int(entry), parent_of(int(entry)), rank_in(environment)))
    return found


def rank_in(environment: list[bytes]) -> int | None:
    ranks = [line[13:] for line in environment if line.startswith(b"HOROVOD_RANK=")]
    return int(ranks[0]) if ranks else None


def parent_of(pid: int) -> int:
    # The name, in brackets, may contain anything; the fields are counted from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def state_of(pid: int) -> str:
    """One letter: T for stopped, Z for a zombie; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def sockets(pid: int) -> dict[int, int]:
    """Inodes of a process's sockets, by descriptor."""
    found = {}
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{descriptor}"))
                if match:
                    found[int(descriptor)] = int(match[1])
    return found


class Listener(NamedTuple):
    """A listening socket: a TCP port, or a name in the abstract space of unix sockets."""

    inode: int
    port: int | None
    name: str | None


def listeners(pid: int | str = "self") -> list[Listener]:
    """All listening sockets in the network namespace of a process."""
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING:
                    port = int(fields[1].rpartition(":")[2], 16)
                    found.append(Listener(int(fields[9]), port, None))
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
            fields = line.split()
            if len(fields) == 8 and fields[7].startswith("@hvd-"):
                found.append(Listener(int(fields[6]), None, fields[7][1:]))
    return found


def listeners_of(mark: str) -> list[Listener]:
    """The job's listening sockets, as far as they can be reached from here."""
    inodes = {inode for process in processes(mark) for inode in sockets(process.pid).values()}
    return [listener for listener in listeners() if listener.inode in inodes]


def shared_memory_names() -> set[str]:
    """Files in /dev/shm, without those that name a process which still runs."""
    with contextlib.suppress(OSError):
        return {name for name in os.listdir(SHARED_MEMORY) if not names_a_process(name)}
    return set()


def names_a_process(name: str) -> bool:
    return any(os.path.exists(f"/proc/{number}") for number in re.findall(r"\d+", name))
