"""Things that are used up or odd: each is an error that says what to do, none a hang."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

REDUCE = """
import numpy as np
import horovod.numpy as hvd
hvd.init()
print(hvd.allreduce(np.ones(1, np.float32), name="x", op=hvd.Sum), flush=True)
"""


def test_a_timeline_that_is_a_fifo_without_a_reader_holds_nothing_up(
    horovodrun: Launch, tmp_path: Path
) -> None:
    fifo = tmp_path / "timeline"
    os.mkfifo(fifo)
    options = ["-np", "2", "--timeline-filename", str(fifo)]
    job = horovodrun(*options, sys.executable, "-c", REDUCE)
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("[2.]") == 2
    expected = f"cannot write the timeline to `{fifo}`: it is a FIFO without a reader"
    assert expected in job.stderr, job.stderr


# The second name fits; the others are refused where they are given, and the job goes on.
NAMES = """
import numpy as np
import horovod.numpy as hvd
hvd.init()
array = np.ones(1, np.float32)
for name in ("n" * 300_000_000, "n" * 65_000, "n" * 66_000):
    try:
        print(hvd.allreduce(array, name=name, op=hvd.Sum), flush=True)
    except ValueError as error:
        print(error, flush=True)
try:
    hvd.grouped_allreduce([array, array], name="n" * 100_000_000)
except ValueError as error:
    print(error, flush=True)
print(hvd.allreduce(array, name="short", op=hvd.Sum), flush=True)
"""


def test_an_endless_name_is_refused_and_the_job_goes_on(horovodrun: Launch) -> None:
    job = horovodrun("-np", "2", sys.executable, "-c", NAMES)
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("[2.]") == 4, job.stdout
    assert job.stdout.count("bytes is too long; names of tensors and groups have at most") == 6


# A second thread waits for an operation that rank 1 never asks for, and another comes too late.
SHUTDOWN = """
import sys, threading
import numpy as np
import horovod.numpy as hvd
from horovod.common.exceptions import HorovodInternalError
hvd.init()
if hvd.rank() == 0:
    handles = [hvd.allreduce_async(np.ones(1, np.float32), name=name) for name in "abc"]
    def wait(handle):
        try:
            print("result", hvd.synchronize(handle), flush=True)
        except Exception as error:
            print(type(error).__name__, error, flush=True)
    early = threading.Thread(target=wait, args=handles[:1])
    early.start()
    hvd.shutdown()
    early.join()
    wait(handles[1])
    hvd.init()
    wait(handles[2])
    assert hvd.allreduce(np.ones(1, np.float32), name="d", op=hvd.Sum)[0] == 2
else:
    # Until rank 0 shuts down.
    try:
        hvd.allreduce(np.ones(1, np.float32), name="never")
    except HorovodInternalError:
        hvd.shutdown()
    hvd.init()
    hvd.allreduce(np.ones(1, np.float32), name="d", op=hvd.Sum)
"""


def test_whoever_waits_after_a_shutdown_is_told_of_it(horovodrun: Launch) -> None:
    job = horovodrun("-np", "2", sys.executable, "-c", SHUTDOWN)
    assert job.returncode == 0, job.stderr
    told = [line for line in job.stdout.splitlines() if "HorovodInternalError" in line]
    assert len(told) == 3, job.stdout
    assert all("horovod has been shut down" in line for line in told), job.stdout


# Root has no limit of processes, so it becomes another user first.
THREADS = """
import os, resource
import horovod.numpy as hvd
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
hvd.init()
"""


def test_a_limit_of_threads_is_named_with_the_thread() -> None:
    process = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60
    )
    assert "cannot start the thread `hvd-init`: " in process.stderr, process.stderr
    assert "raise the user's limit (`ulimit -u`, now 1)" in process.stderr
    assert "BlockingIOError" not in process.stderr


# With the limit of the shell that starts it; root has none, so it becomes somebody else first.
LIMITED_BY_THE_SHELL = """
import os
import horovod.numpy as hvd
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
hvd.init()
print("size", hvd.size(), flush=True)
"""


def test_a_limit_of_threads_is_raised_as_is_said() -> None:
    def started(line: str) -> subprocess.CompletedProcess[str]:
        script = f'{line} && exec "$@"'
        program = [sys.executable, "-c", LIMITED_BY_THE_SHELL]
        command = ["bash", "-c", script, "bash", *program]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    refused = started("ulimit -S -u 1")
    remedy = re.search(r"raise the user's limit \(`(ulimit -u)`, now 1\)", refused.stderr)
    assert remedy and "size" not in refused.stdout, refused
    done = started(f"ulimit -S -u 1 && {remedy[1]} 4096")
    assert (done.returncode, done.stdout) == (0, "size 1\n"), done


def with_full_folders(tmp_path: Path, before: str = "true") -> subprocess.CompletedProcess[str]:
    """A job where the folder for temporary files and /dev/shm are full; `before` is typed first."""
    if os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"]).returncode != 0:
        pytest.skip("needs a file system of its own")
    if os.geteuid() != 0:
        pytest.skip("only root can mount one")
    job = "exec horovodrun -np 1 true".replace(
        "horovodrun", f"{sys.executable} -m horovod.runner.launch"
    )
    # Two file systems of one page, which one file fills.
    fill = "mount -t tmpfs -o size=4k none {0} && head -c 4096 /dev/zero > {0}/f"
    script = " && ".join([fill.format(tmp_path), fill.format("/dev/shm"), before, job])
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_full_folder_for_temporary_files_is_named(tmp_path: Path) -> None:
    process = with_full_folders(tmp_path)
    assert process.returncode == 1, process.stderr
    assert f"cannot keep the job's key in a file: `{tmp_path}/horovod-" in process.stderr
    assert process.stderr.count("No space left on device") == 2, process.stderr
    assert "make room there, or set TMPDIR" in process.stderr


@pytest.mark.parametrize("remedy", ["export TMPDIR={other}", "rm {full}/f"])
def test_another_folder_or_room_is_enough(tmp_path: Path, remedy: str) -> None:
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    other.mkdir()
    process = with_full_folders(full, remedy.format(full=full, other=other))
    assert process.returncode == 0, process.stderr
