"""`horovodrun --container` with a real Docker engine: the launcher outside, ranks in containers.

The engine of these tests has its own network namespace; `horovodrun` runs in it, as on a machine
where both are at home.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import Engine

import horovod

HOROVODRUN = str(Path(sys.executable).with_name("horovodrun"))
LEFT = 20.0

SUM = (
    "import os, horovod.numpy as hvd, numpy as np; hvd.init();"
    "total = hvd.allreduce(np.array([hvd.rank()]), op=hvd.Sum, name='x')[0];"
    "print('rank', hvd.rank(), 'local', hvd.local_rank(), 'sum', total, os.getcwd(), os.getuid(),"
    " os.environ.get('MY_SETTING'))"
)
ENDLESS = (
    "import horovod.numpy as hvd, numpy as np; hvd.init()\n"
    "for step in range(10**9):\n"
    "    hvd.allreduce(np.ones(4), name='x')\n"
    "    if step == 3: print('ready', flush=True)\n"
)


_started: list[subprocess.Popen[str]] = []


def horovodrun(engine: Engine, image: str, *arguments: str, **options) -> subprocess.Popen[str]:
    """Starts a job whose ranks are in containers of the engine."""
    inside = []
    if engine.process:
        inside = ["nsenter", f"--target={engine.process}", "--net", "--uts", "--"]
    runtime = ("--container", image, "--container-runtime", "docker")
    # Tests that a script has started in the background ignore Ctrl-C, and so would the job.
    attentive = ("env", "--default-signal=INT")
    job = subprocess.Popen(
        [*inside, *attentive, HOROVODRUN, *runtime, *arguments],
        env={**engine.environment, "MY_SETTING": "passed", **options.pop("env", {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    _started.append(job)
    return job


def containers(engine: Engine) -> list[str]:
    return engine.listed("ps", "--all", "--quiet", "--filter", "label=horovod")


@pytest.fixture
def none_left(engine: Engine) -> Iterator[None]:
    """No container of a rank is left after the test, whatever ended its job, and no job either."""
    yield
    while _started:
        _end(_started.pop())
    end = time.monotonic() + LEFT
    while left := containers(engine):
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.1)


def _end(job: subprocess.Popen[str]) -> None:
    """Kills what a failed test has left, which would slow down those after it."""
    if job.poll() is None:
        job.kill()
        job.communicate(timeout=LEFT)


def test_ranks_in_containers(engine: Engine, image: str, tmp_path: Path, none_left: None) -> None:
    job = horovodrun(engine, image, "-np", "2", "python", "-c", SUM, cwd=tmp_path)
    output, errors = job.communicate(timeout=90)
    assert job.returncode == 0, errors
    for rank in (0, 1):
        line = f"rank {rank} local {rank} sum 1 {tmp_path} {os.getuid()} passed"
        assert line in output, output + errors


def test_exit_code_is_the_ranks(
    engine: Engine, image: str, tmp_path: Path, none_left: None
) -> None:
    job = horovodrun(engine, image, "-np", "1", "sh", "-c", "exit 7", cwd=tmp_path)
    job.communicate(timeout=60)
    assert job.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_containers_end_with_the_launcher(
    engine: Engine, image: str, tmp_path: Path, none_left: None, number: int
) -> None:
    """Killing the client of Docker does not end its container; ours ends with its input."""
    job = horovodrun(engine, image, "-np", "2", "python", "-c", ENDLESS, cwd=tmp_path)
    assert job.stdout
    for _ in range(2):
        assert "ready" in job.stdout.readline()
    assert len(containers(engine)) == 2
    os.kill(job.pid, number)
    job.communicate(timeout=LEFT)
    assert job.returncode != 0


def test_containers_end_with_the_driver(
    engine: Engine, image: str, tmp_path: Path, none_left: None
) -> None:
    """Both halves of the launcher at once, as an out-of-memory killer may do it."""
    job = horovodrun(engine, image, "-np", "1", "python", "-c", ENDLESS, cwd=tmp_path)
    assert job.stdout and "ready" in job.stdout.readline()
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    for process in (job.pid, *map(int, children)):
        os.kill(process, signal.SIGKILL)
    job.communicate(timeout=LEFT)


def test_debug_says_that_containers_share_memory(
    engine: Engine, image: str, tmp_path: Path, none_left: None
) -> None:
    """`debug` reads what the ranks say, so theirs must be the Horovod that is tested."""
    installed = Path(horovod.__file__).parent
    package = f"--container-args=--volume={installed}:/package/horovod --env=PYTHONPATH=/package"
    job = horovodrun(engine, image, package, "-np", "2", "python", "-c", ENDLESS, cwd=tmp_path)
    assert job.stdout
    for _ in range(2):
        assert "ready" in job.stdout.readline()
    shown = subprocess.run([HOROVODRUN, "debug", str(job.pid)], capture_output=True, text=True)
    os.kill(job.pid, signal.SIGINT)
    job.communicate(timeout=LEFT)
    assert shown.stdout.endswith("\ntransport: shared memory\n"), shown.stdout + shown.stderr
