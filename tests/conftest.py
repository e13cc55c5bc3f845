"""Fixtures for tests that start jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def horovodrun() -> Launch:
    """Runs `horovodrun` with the given arguments and returns how it ended and what it printed."""

    def launch(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return run_bounded(
            [sys.executable, "-m", "horovod.runner.launch", *arguments], timeout=timeout
        )

    return launch


def run_bounded(command: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Runs a command in its own process group, none of which outlives the timeout."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
