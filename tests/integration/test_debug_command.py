"""`horovodrun debug` shows what every rank of a running job is doing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

LAUNCHER = [sys.executable, "-m", "horovod.runner.launch"]

# Rank 1 never comes to the barrier.
HANGING = """
import os, sys, time
import numpy as np
import horovod.numpy as hvd

hvd.init()
hvd.allreduce(np.ones(3), name="first")

def load_batch():
    time.sleep(60)

print(f"ready {hvd.rank()} {os.getpid()}", flush=True)
if hvd.rank() == 1:
    load_batch()
hvd.barrier()
"""
SLEEP_LINE = HANGING.splitlines().index("    time.sleep(60)") + 1

# Stacks that change all the time, between Python and C code.
BUSY = """
import os
import numpy as np
import horovod.numpy as hvd

hvd.init()
array = np.ones(1000, np.float32)
print(f"ready {hvd.rank()} {os.getpid()}", flush=True)
while True:
    hvd.allreduce_(array, name="x", op=hvd.Average)
"""

WITHOUT_INIT = """
import os, time
import horovod.numpy as hvd

print(f"ready {os.environ['HOROVOD_RANK']} {os.getpid()}", flush=True)
if os.environ["HOROVOD_RANK"] == "1":
    time.sleep(60)
hvd.init()
"""


@contextmanager
def running(
    script: str, place: Path, ranks: int = 2, said: list[str] | None = None
) -> Iterator[tuple[int, dict[int, int]]]:
    """A job whose ranks are ready: the process number of its launcher, and those of its ranks.
    Its later output goes to `said` when it has ended."""
    job = subprocess.Popen(
        [*LAUNCHER, "-np", str(ranks), sys.executable, "-c", script],
        env={**os.environ, "XDG_RUNTIME_DIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    pids: dict[int, int] = {}
    try:
        assert job.stdout is not None
        for line in job.stdout:
            words = line.split(":", 1)[-1].split()
            if words[:1] == ["ready"]:
                pids[int(words[1])] = int(words[2])
            if len(pids) == ranks:
                break
        assert len(pids) == ranks
        yield job.pid, pids
    finally:
        for pid in pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        job.terminate()
        output, _ = job.communicate(timeout=30)
        if said is not None:
            said.append(output)


def debug(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCHER, "debug", *words],
        env={**os.environ, "XDG_RUNTIME_DIR": str(place)},
        capture_output=True,
        text=True,
        timeout=30,
    )


def table(asked: subprocess.CompletedProcess[str]) -> dict[int, list[str]]:
    """The cells of each rank's row."""
    assert asked.returncode == 0, asked.stderr
    lines = asked.stdout.splitlines()
    rows = [
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in lines[lines.index("") + 2 :]
    ]
    return {int(row[0]): row for row in rows if row and row[0].isdigit()}


def document(place: Path, pid: int) -> dict[str, Any]:
    asked = debug(place, str(pid), "--json")
    assert asked.returncode == 0, asked.stderr
    return json.loads(asked.stdout)


def until_waiting(place: Path, pid: int) -> None:
    """Waits until rank 0 stands at the barrier: it says that it is ready just before."""
    end = time.monotonic() + 20
    while document(place, pid)["ranks"][0].get("state") != "waiting":
        assert time.monotonic() < end


def test_a_job_that_hangs_at_a_barrier(tmp_path: Path) -> None:
    with running(HANGING, tmp_path) as (launcher, pids):
        until_waiting(tmp_path, launcher)
        # Any process of the job will do to name it.
        for pid in (launcher, pids[1]):
            rows = table(debug(tmp_path, str(pid)))
            assert rows[0][1:5] == ["localhost", str(pids[0]), "waiting", "barrier"], rows
            assert rows[1][1:5] == ["localhost", str(pids[1]), "idle", "last allreduce"], rows
            assert rows[1][6] == "allreduce.first", rows
            assert f"<string>:{SLEEP_LINE} in load_batch" in rows[1][7], rows

        full = debug(tmp_path, "--verbose", str(launcher))
        assert "rank 1 on localhost, its last operations:" in full.stdout, full.stdout
        assert f"    <string>:{SLEEP_LINE} in load_batch\n" in full.stdout, full.stdout

        told = document(tmp_path, launcher)
        assert told["job"] == launcher and told["answered"]
        assert [rank["pid"] for rank in told["ranks"]] == [pids[0], pids[1]]
        assert told["ranks"][1]["python"]["function"] == "load_batch"
        assert (tmp_path / "horovod" / f"{launcher}.sock").is_socket()
    assert list((tmp_path / "horovod").iterdir()) == [], "the socket went with the job"


def test_busy_ranks_survive_many_questions(tmp_path: Path) -> None:
    with running(BUSY, tmp_path) as (pid, ranks):
        for _ in range(30):
            for rank in document(tmp_path, pid)["ranks"]:
                functions = [frame["function"] for frame in rank["threads"][0]["frames"]]
                assert functions[-1] == "<module>", functions
        for process in ranks.values():
            os.kill(process, 0)


def test_ranks_that_have_not_called_init_are_told(tmp_path: Path) -> None:
    with running(WITHOUT_INIT, tmp_path) as (launcher, _):
        end = time.monotonic() + 20
        while True:
            rows = table(debug(tmp_path, str(launcher)))
            if rows[0][3] == "in hvd.init(), waiting for others":
                break
            assert time.monotonic() < end, rows
        assert rows[1][3] == "has not called hvd.init()"


def test_a_suspended_rank_is_told_by_the_others(tmp_path: Path) -> None:
    with running(HANGING, tmp_path, ranks=3) as (launcher, pids):
        os.kill(pids[2], signal.SIGSTOP)
        rows = table(debug(tmp_path, str(launcher)))
        assert rows[1][3] == "idle", rows
        assert rows[2][3] == "not answering", rows

        os.kill(pids[0], signal.SIGSTOP)
        asked = debug(tmp_path, str(launcher))
        assert [row[3] for row in table(asked).values()] == ["not answering"] * 3
        assert "rank 0, which collects the answers, did not answer" in asked.stdout


def test_a_job_that_is_alone_can_be_asked(tmp_path: Path) -> None:
    script = HANGING.replace("hvd.rank() == 1", "True")
    with running(script, tmp_path, ranks=1) as (launcher, _):
        rows = table(debug(tmp_path, str(launcher)))
        assert rows[0][3:5] == ["idle", "last allreduce"], rows


def test_sockets_do_not_outlive_their_jobs(tmp_path: Path) -> None:
    place = tmp_path / "horovod"
    with running(HANGING, tmp_path) as (launcher, _):
        driver = document(tmp_path, launcher)["driver"]
        os.kill(driver, signal.SIGKILL)
        os.waitid(os.P_PID, launcher, os.WEXITED | os.WNOWAIT)
    assert list(place.iterdir()) == [], "the launcher's other process removes it"

    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(place / f"{launcher}.sock"))
    asked = debug(tmp_path, str(launcher))
    assert asked.returncode == 1
    assert asked.stderr.startswith("horovodrun: no job"), asked.stderr
    assert list(place.iterdir()) == []


def test_silent_connections_do_not_keep_others_from_asking(tmp_path: Path) -> None:
    """More than are served at once, of the job's own user; others are hung up on at once."""
    with running(HANGING, tmp_path) as (launcher, _):
        until_waiting(tmp_path, launcher)
        path = tmp_path / "horovod" / f"{launcher}.sock"
        silent = [socket.socket(socket.AF_UNIX) for _ in range(300)]
        try:
            for connection in silent:
                connection.settimeout(10)
                connection.connect(str(path))
            rows = table(debug(tmp_path, str(launcher)))
            assert rows[0][3] == "waiting" and rows[1][3] == "idle", rows
            # Each is closed in time, whether or not others come after it.
            for connection in silent:
                assert connection.recv(1) == b""
        finally:
            for connection in silent:
                connection.close()
        assert len(table(debug(tmp_path, str(launcher)))) == 2


# Connects as a user, asks for the status and prints how many bytes came.
ASK = """
import os, socket, sys
path, user = sys.argv[1], int(sys.argv[2])
os.setgid(user)
os.setuid(user)
caller = socket.socket(socket.AF_UNIX)
caller.settimeout(20)
caller.connect(path)
count = 0
try:
    caller.sendall(b"a")
    while piece := caller.recv(65536):
        count += len(piece)
except (BrokenPipeError, ConnectionResetError):
    pass
print(count)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_other_users_get_no_answer(tmp_path: Path) -> None:
    """Neither by the directory, nor by the socket once someone has opened up all directories;
    the launcher reports them, the first at once and the rest together."""
    stranger = 65534
    said: list[str] = []

    def asked(path: Path, user: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", ASK, str(path), str(user)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    with running(HANGING, tmp_path, said=said) as (launcher, _):
        path = tmp_path / "horovod" / f"{launcher}.sock"
        outside = asked(path, stranger)
        assert outside.returncode != 0 and "PermissionError" in outside.stderr, outside
        path.parent.chmod(0o755)
        path.chmod(0o777)
        for _ in range(3):
            answer = asked(path, stranger)
            assert (answer.returncode, answer.stdout) == (0, "0\n"), answer
        owner = asked(path, 0)
        assert owner.returncode == 0 and int(owner.stdout) > 100, owner
        path.parent.chmod(0o700)
    reports = [line for line in said[0].splitlines() if "hvd-debug: " in line]
    assert len(reports) == 2, said
    failure = "came from another user and could do nothing;"
    assert f"1 connection {failure} from user {stranger}: " in reports[0], reports
    assert f"2 connections {failure} the last one from user {stranger}: " in reports[1], reports


def test_only_the_very_first_word_is_the_command(tmp_path: Path) -> None:
    job = subprocess.run(
        [*LAUNCHER, "-np", "1", "debug"], capture_output=True, text=True, timeout=30
    )
    assert job.returncode == 127
    assert "cannot start `debug`: no such command in PATH" in job.stderr
    help_text = debug(tmp_path, "--help")
    assert help_text.returncode == 0
    assert "Usage: horovodrun debug [OPTIONS] [PID|JOB]" in help_text.stdout
    assert debug(tmp_path, "--nonsense").returncode == 2
    assert debug(tmp_path, "no such job").returncode == 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two other users")
def test_a_directory_of_another_users_is_named_and_not_used() -> None:
    """A stranger has made the directories of a user's jobs first."""
    victim, stranger = 2_000_000 + os.getpid(), 3_000_000 + os.getpid()
    first, second = Path(f"/tmp/horovod-{victim}"), Path(f"/dev/shm/horovod-{victim}")
    environment = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}

    drop = ["setpriv", f"--reuid={victim}", f"--regid={victim}", "--clear-groups", *LAUNCHER]

    def as_victim(*words: str) -> subprocess.CompletedProcess[str]:
        pipes = {"capture_output": True, "text": True, "timeout": 60}
        return subprocess.run([*drop, *words], env=environment, cwd="/", **pipes)

    try:
        first.mkdir(mode=0o700)
        os.chown(first, stranger, stranger)
        alone = as_victim("debug")
        assert alone.returncode == 1
        assert f"`{first}` belongs to user {stranger}, not to you; have it" in alone.stderr
        # The job is in the second place, where debug finds it and lists it.
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        job = subprocess.Popen(
            [*drop, "-np", "1", "sh", "-c", "echo up; exec sleep 100"], env=environment, **pipes
        )
        assert job.stdout is not None and "up" in job.stdout.readline()
        listed = as_victim("debug", "another")
        job.terminate()
        job.communicate(timeout=30)
        assert "no job matches `another`; running jobs:" in listed.stderr, listed.stderr
        assert "exec sleep 100" in listed.stderr
        shutil.rmtree(second, ignore_errors=True)
        second.mkdir(mode=0o700)
        os.chown(second, stranger, stranger)
        warned = as_victim("-np", "1", "true")
        assert warned.returncode == 0
        text = f"`horovodrun debug` will not find this job: `{first}` belongs to user {stranger}"
        assert text in warned.stderr and f"`{second}` belongs" in warned.stderr, warned.stderr
        # What is printed is typed, by who may.
        remove = re.findall("`(rm -r [^`]+)`", warned.stderr)
        assert remove == [f"rm -r {first}", f"rm -r {second}"], warned.stderr
        subprocess.run(["sh", "-c", remove[0]], check=True, timeout=30)
        done = as_victim("-np", "1", "true")
        assert (done.returncode, done.stderr) == (0, "")
        first.chmod(0o755)
        told = as_victim("debug").stderr
        close = re.search(f"others can enter `{first}`; run `([^`]+)`", told)
        assert close, told
        subprocess.run(["sh", "-c", close[1]], check=True, timeout=30)
        assert f"`{first}`" not in as_victim("debug").stderr
    finally:
        shutil.rmtree(first, ignore_errors=True)
        shutil.rmtree(second, ignore_errors=True)
