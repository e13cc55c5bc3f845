"""Fixtures for tests of the launcher; see `launched.py`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from launched import Job

# A script in the background, or under nohup, starts with these ignored, and so would its jobs,
# which are to be ended by them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def start() -> Iterator[Callable[..., Job]]:
    """Starts `horovodrun` with the given arguments; nothing of it survives the test."""
    jobs: list[Job] = []

    def begin(*arguments: str, **options: object) -> Job:
        jobs.append(Job(*arguments, **options))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.clean_up()


@pytest.fixture
def run(start: Callable[..., Job]) -> Callable[..., tuple[int, bytes, bytes]]:
    """Runs `horovodrun` to its end and returns exit code, stdout and stderr."""
    return lambda *arguments, **options: start(*arguments, **options).finish()
