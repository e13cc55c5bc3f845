"""Data prepared by some processes for others that train, each with a launcher of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)

TRAINER = Path(__file__).parent / "tensorflow_trainer.py"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts the processes of a service, which do not outlive the test."""
    started = []

    def start(*options: str) -> subprocess.Popen:
        worker = ["-m", "horovod.tensorflow.data.compute_worker", str(tmp_path / "service.json")]
        command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", sys.executable]
        process = subprocess.Popen([*command, *worker, *options], start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize(
    ("side", "dispatchers", "sharing", "mode"),
    [
        ("compute", "2", "own", "parallel_epochs"),
        ("compute", "1", "first", "distributed_epoch"),
        ("compute", "1", "turns", "parallel_epochs"),
        ("training", "2", "own", "distributed_epoch"),
    ],
)
def test_data_service(
    horovodrun, service, tmp_path: Path, side: str, dispatchers: str, sharing: str, mode: str
) -> None:
    workers = service("--dispatchers", dispatchers, "--dispatcher-side", side)
    file = str(tmp_path / "service.json")
    done = horovodrun(*["-np", "2", sys.executable, str(TRAINER), file, sharing, mode], timeout=100)
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(r"READ (.*)", done.stdout)
    everyones = json.loads(found)
    together = [value for values in everyones for value in values]
    assert set(together) <= set(range(1024))
    if sharing == "first":
        assert sorted(together) == list(range(1024))
    elif sharing == "own" and mode == "distributed_epoch":
        assert [sorted(values) for values in everyones] == [list(range(1024))] * 2
    else:
        assert all(everyones)
    assert workers.wait(60) == 0
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    addresses = json.loads(Path(file).read_text())["addresses"]
    own = socket.gethostbyname(socket.gethostname())
    assert {host for host, _ in addresses} == {own, "127.0.0.1"}, "the registry listens elsewhere"
