"""A process of another job at the unix socket through which the ranks of a host share memory: it
gets no file and is reported, and the ranks get their memory."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

LAUNCHER = [sys.executable, "-m", "horovod.runner.launch"]

# Rank 0 offers memory in `init()` while rank 1 waits for the stranger.
RANKS = """
import os, time
import horovod.numpy as hvd
if os.environ["HOROVOD_RANK"] == "0":
    print("rank 0 is", os.getpid(), flush=True)
while os.environ["HOROVOD_RANK"] == "1" and not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
hvd.init()
print("sum", hvd.allreduce(1.0, op=hvd.Sum), flush=True)
"""

# What a connection for shared memory says first, with a proof that another key made.
HELLO = b"HVDR\x02\x05" + os.urandom(48)
WRONG_KEY = b"HVDR\xff"
RUNS = 5


def memory_socket(pid: int) -> str:
    """The name of the socket at which a process offers memory, when it does."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        opened = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
        for line in Path("/proc/net/unix").read_text().splitlines():
            found = re.search(r" (\d+) @(hvd-[0-9a-f]{16})$", line)
            if found and f"socket:[{found[1]}]" in opened:
                return found[2]
        time.sleep(0.05)
    raise AssertionError("no socket for shared memory")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], str]]]:
    """Starts a job of which rank 1 waits for `tmp_path / "go"`; returns its socket too."""
    jobs = []

    def start() -> tuple[subprocess.Popen[str], str]:
        job = subprocess.Popen(
            [*LAUNCHER, "-np", "2", sys.executable, "-c", RANKS],
            # Without memory such a job fails.
            env={**os.environ, "GO": str(tmp_path / "go"), "HOROVOD_TRANSPORT": "shm"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        jobs.append(job)
        assert job.stdout is not None
        pid = re.search(r"rank 0 is (\d+)", job.stdout.readline())
        assert pid
        return job, memory_socket(int(pid[1]))

    yield start
    for job in jobs:
        job.kill()
        job.communicate()


def connect(name: str) -> socket.socket:
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(30)
    stranger.connect(b"\0" + name.encode())
    return stranger


def received(stranger: socket.socket) -> tuple[bytes, list[int]]:
    """All bytes and files that come until the other end closes the connection."""
    content, files = b"", []
    while True:
        piece, descriptors, _, _ = socket.recv_fds(stranger, 4096, 8)
        files += descriptors
        content += piece
        if not piece:
            return content, files


def test_another_key_gets_no_file_and_is_reported(start, tmp_path: Path) -> None:
    for _ in range(RUNS):
        job, name = start()
        with connect(name) as stranger:
            stranger.sendall(HELLO)
            (tmp_path / "go").touch()
            answer, files = received(stranger)
        output, errors = job.communicate(timeout=60)
        assert files == []
        assert job.returncode == 0 and output.count("sum 2.0") == 2, errors
        if answer:
            break
        # The ranks had their memory, and the socket was closed, before it was this one's turn.
        (tmp_path / "go").unlink()
    assert answer == WRONG_KEY
    report = "hvd-memory: 1 connection did not prove the job's key and could do nothing; from "
    assert f"{report}a process of this host: " in errors, errors


def test_silent_connections_do_not_keep_a_rank_from_its_memory(start, tmp_path: Path) -> None:
    job, name = start()
    strangers = [connect(name) for _ in range(300)]
    began = time.monotonic()
    (tmp_path / "go").touch()
    for stranger in strangers:
        assert received(stranger) == (b"", [])
        stranger.close()
    output, errors = job.communicate(timeout=60)
    assert job.returncode == 0 and output.count("sum 2.0") == 2, errors
    assert time.monotonic() - began < 5, "no rank waits until their time is up"
    assert "hvd-memory: " in errors and "this was the oldest" in errors, errors
