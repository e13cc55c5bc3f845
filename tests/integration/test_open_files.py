"""Limits of open files: raised as far as they may be, and said plainly where that is not enough."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCHER = [sys.executable, "-m", "horovod.runner.launch"]

# Says where the store is, waits for the strangers, and then needs every port of the job again.
REINIT = """
import os, time
import numpy as np
import horovod.numpy as hvd
hvd.init()
print("store", os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"], flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
for _ in range(3):
    hvd.shutdown()
    hvd.init()
    assert hvd.allreduce(np.ones(4, np.float32), op=hvd.Sum).tolist() == [2.0] * 4
print("finished", flush=True)
"""


def limited(soft: int, hard: int) -> object:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def run(np: int, *command: str, soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCHER, "-np", str(np), *command],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limited(soft, hard),
    )


def test_ranks_and_driver_raise_their_soft_limit() -> None:
    script = (
        "import resource, horovod.numpy as hvd; before = resource.getrlimit(7)[0]; hvd.init();"
        "print('limit', before, resource.getrlimit(7)[0])"
    )
    ended = run(20, sys.executable, "-c", script, soft=48, hard=4096)
    assert ended.returncode == 0, ended.stderr
    # Until it calls init, a rank has the limit that its user has chosen.
    assert ended.stdout.count("limit 48 4096") == 20, ended.stdout


def test_ranks_that_do_not_fit_are_refused_with_what_to_type() -> None:
    ended = run(64, "true", soft=64, hard=64)
    assert ended.returncode == 1
    needed = re.search(
        r"cannot start 64 ranks on this host: at most 64 files may be open, about (\d+) are "
        r"needed: type `ulimit -n \1`",
        ended.stderr,
    )
    assert needed, ended.stderr
    remedy = int(needed[1])
    ended = run(64, "true", soft=64, hard=remedy)
    assert ended.returncode == 0, ended.stderr


# Before init the program has files of its own open, as data sets and logs are. Rank 0 has a
# connection to each of the others, and they have theirs to it alone.
OCCUPIED = """
import numpy as np
import horovod.numpy as hvd
files = [open("/dev/null") for _ in range(28)]
hvd.init()
print("sum", hvd.allreduce(np.ones(1, np.float32), op=hvd.Sum)[0], flush=True)
"""


def test_a_rank_whose_connections_do_not_fit_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit does for the driver and for seven ranks, but not for rank 0."""
    monkeypatch.setenv("HOROVOD_TRANSPORT", "tcp")
    ended = run(8, sys.executable, "-c", OCCUPIED, soft=64, hard=64)
    assert ended.returncode == 1 and "sum" not in ended.stdout, ended
    needed = re.search(
        r"rank 0 on host `localhost` cannot connect to the others: at most 64 files may be open, "
        r"about (\d+) are needed: type `ulimit -n \1`",
        ended.stderr,
    )
    assert needed, ended.stderr
    assert "the job failed: rank 0 on localhost " in ended.stderr, ended.stderr
    ended = run(8, sys.executable, "-c", OCCUPIED, soft=64, hard=int(needed[1]))
    assert ended.returncode == 0 and ended.stdout.count("sum 8.0") == 8, ended


def test_a_flood_that_uses_up_all_files_does_not_close_the_port(tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = subprocess.Popen(
        [*LAUNCHER, "-np", "2", sys.executable, "-c", REINIT],
        env={**os.environ, "GO": str(go)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited(60, 60),
    )
    assert job.stdout is not None
    try:
        line = job.stdout.readline()
        found = re.search(r"store (\d+)", line)
        assert found, line
        strangers = [socket.create_connection(("127.0.0.1", int(found[1])), 5) for _ in range(120)]
        go.touch()
        output, errors = job.communicate(timeout=60)
    finally:
        job.kill()
    for stranger in strangers:
        stranger.close()
    assert job.returncode == 0, errors
    assert output.count("finished") == 2
    assert "hvd-store: " in errors and "could not be accepted" in errors, errors
    assert "at most 60 files may be open" in errors, errors


@pytest.mark.parametrize("held", [False, True], ids=["gone", "held"])
def test_a_flood_at_the_debug_socket_does_not_close_it(tmp_path: Path, held: bool) -> None:
    go = tmp_path / "go"
    environment = {**os.environ, "GO": str(go), "XDG_RUNTIME_DIR": str(tmp_path)}
    job = subprocess.Popen(
        [*LAUNCHER, "-np", "2", sys.executable, "-c", REINIT],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited(60, 60),
    )
    assert job.stdout is not None
    try:
        assert "store" in job.stdout.readline()
        (path,) = (path for path in tmp_path.rglob("*") if path.is_socket())
        strangers = [socket.socket(socket.AF_UNIX) for _ in range(120)]
        for stranger in strangers:
            stranger.connect(str(path))
        if not held:
            for stranger in strangers:
                stranger.close()
        asked = subprocess.run(
            [*LAUNCHER, "debug", str(job.pid)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        go.touch()
        job.communicate(timeout=60)
    finally:
        job.kill()
    for stranger in strangers:
        stranger.close()
    assert asked.returncode == 0 and "rank" in asked.stdout, asked
    assert job.returncode == 0


@pytest.mark.parametrize("words", ["GET / HTTP/1.1", "HVDR\2\1" + "x" * 60])
def test_strangers_are_reported_with_their_address(tmp_path: Path, words: str) -> None:
    go = tmp_path / "go"
    job = subprocess.Popen(
        [*LAUNCHER, "-np", "2", sys.executable, "-c", REINIT],
        env={**os.environ, "GO": str(go)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    try:
        found = re.search(r"store (\d+)", job.stdout.readline())
        assert found
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", int(found[1])), 5) as stranger:
                stranger.sendall(words.encode())
                with contextlib.suppress(ConnectionResetError):
                    while stranger.recv(100):
                        pass
        go.touch()
        _, errors = job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode == 0, errors
    reports = [line for line in errors.splitlines() if "did not prove the job's key" in line]
    # The first at once, the rest together.
    assert len(reports) == 2, errors
    assert "hvd-store: 1 connection " in reports[0] and "from 127.0.0.1: " in reports[0]
    assert "hvd-store: 49 connections " in reports[1] and "from 127.0.0.1: " in reports[1]
