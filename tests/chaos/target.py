"""The job that is attacked: `horovodrun` with ranks of `worker.py`, and all they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import traces

WORKER = Path(__file__).with_name("worker.py")
START_LIMIT = 60.0


class Violation(Exception):
    """Something that must not happen, whatever is done to a job."""


class Plan(NamedTuple):
    """How a job is started."""

    ranks: int
    transport: str
    seed: int
    environment: Mapping[str, str]
    wrapper: Sequence[str]


class Event(NamedTuple):
    """One line of a rank."""

    kind: str
    rank: int
    time: float
    facts: dict[str, Any]


class Target:
    """A running job. Leaving its context ends whatever is left of it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.mark = uuid.uuid4().hex
        self.output: list[str] = []
        self.events: list[Event] = []
        self.doors: set[int] = set()
        self._news = threading.Condition()
        self._folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        (self._folder / "tmp").mkdir()
        self._stop = self._folder / "stop"
        self._shared_memory = traces.shared_memory_names()
        command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(plan.ranks)]
        self.launcher = subprocess.Popen(
            # Ctrl-C works as in a shell, also where the tests themselves run in the background.
            [*plan.wrapper, "env", "--default-signal=INT", *command, sys.executable, str(WORKER)],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CHAOS_MARK": self.mark,
            "CHAOS_SEED": str(self.plan.seed),
            "CHAOS_STOP": str(self._stop),
            "TMPDIR": str(self._folder / "tmp"),
            "HOROVOD_TRANSPORT": self.plan.transport,
            # Many ranks on few cores: threads of their own would only be in the way.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            **self.plan.environment,
        }

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        for process in traces.processes(self.mark):
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.launcher.kill()
        self.launcher.wait()
        self._reader.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        assert self.launcher.stdout is not None
        for line in self.launcher.stdout:
            with self._news:
                self.output.append(line)
                if match := re.search(r"CHAOS (\{.*\})$", line):
                    facts = json.loads(match[1])
                    event = Event(facts["event"], facts["rank"], facts["time"], facts)
                    self.events.append(event)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def pids(self) -> dict[int, int]:
        """Process ids by rank."""
        ready = [event for event in self.events if event.kind == "ready"]
        return {event.rank: event.facts["pid"] for event in ready}

    def driver(self) -> int:
        """The launcher's working process."""
        for process in traces.processes(self.mark):
            if process.parent == self.launcher.pid and process.rank is None:
                return process.pid
        raise Violation("the launcher has no driver process")

    def await_ready(self) -> None:
        """Returns when all ranks are in the loop."""
        with self._news:
            ready = self._news.wait_for(
                lambda: len(self.pids()) == self.plan.ranks or not self._reader.is_alive(),
                START_LIMIT,
            )
        if not ready or len(self.pids()) < self.plan.ranks:
            raise Violation(f"only {len(self.pids())} of {self.plan.ranks} ranks came up")
        self.doors |= {listener.inode for listener in traces.listeners_of(self.mark)}

    def await_process(self, rank: int) -> int:
        """Returns a rank's process id as soon as it exists."""
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            for process in traces.processes(self.mark):
                if process.rank == rank and process.parent != self.launcher.pid:
                    return process.pid
            time.sleep(0.005)
        raise Violation(f"rank {rank} has no process")

    def ask_to_stop(self) -> None:
        self._stop.touch()

    def await_end(self, seconds: float) -> int:
        """The launcher's exit code."""
        try:
            code = self.launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Violation(f"the job still runs after {seconds:.1f} s") from None
        self._reader.join(5)
        return code

    def said(self, rank: int, *kinds: str) -> Event | None:
        """The first event of these kinds that a rank reported."""
        for event in self.events:
            if event.rank == rank and event.kind in kinds:
                return event
        return None

    def text(self) -> str:
        return "".join(self.output)

    def check_traces(self, seconds: float = 0.5) -> None:
        """Nothing of the job is left: no process, file, or listening socket."""
        end = time.monotonic() + seconds
        while left := self._alive():
            if time.monotonic() > end:
                raise Violation(left)
            time.sleep(0.02)
        if self._reader.is_alive():
            self._reader.join(5)
        if files := sorted(os.listdir(self._folder / "tmp")):
            raise Violation(f"left in the temporary folder: {files}")
        if segments := sorted(traces.shared_memory_names() - self._shared_memory):
            raise Violation(f"left in /dev/shm: {segments}")

    def _alive(self) -> str | None:
        """What still runs or listens. A process that ends loses its mark before its sockets."""
        if processes := traces.processes(self.mark):
            return f"left behind: {processes}"
        open_doors = {listener.inode for listener in traces.listeners()}
        if doors := self.doors & open_doors:
            return f"still listening: sockets {sorted(doors)}"
        return None
