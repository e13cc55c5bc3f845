"""Starts the real `horovodrun` and watches it: its output, its end, and what it leaves behind.

Every job carries a marker in its environment, which all processes of the job inherit. What still
has the marker after the job is a leak.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARKER = "HVD_LAUNCHER_TEST"
TIMEOUT = 20.0

OFFSPRING = """
setsid bash -c 'trap "" TERM INT HUP; echo deep; while :; do sleep 1000; done' &
bash -c 'echo shallow; sleep 1000; :' &
echo ready
wait
"""
"""A worker with a child, and with a stubborn one that has left session and group."""

OFFSPRING_SAYS = (b"ready", b"shallow", b"deep")


def command() -> str:
    """The `horovodrun` under test: `HOROVODRUN`, or the one beside the interpreter."""
    return os.environ.get("HOROVODRUN") or str(Path(sys.executable).with_name("horovodrun"))


class Job:
    """One `horovodrun`."""

    def __init__(
        self,
        *arguments: str,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        environment: dict[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
        program: list[str] | None = None,
        **options: object,
    ) -> None:
        self.marker = uuid.uuid4().hex
        self.output = b""
        self.process = subprocess.Popen(
            [*(program or [command()]), *arguments],
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **(environment or {}), MARKER: self.marker},
            preexec_fn=prepare or lead_a_session,
            **options,
        )

    def signal(self, number: int) -> None:
        """Signals the process the user started."""
        self.process.send_signal(number)

    def wait_for(self, text: bytes, count: int = 1) -> None:
        """Reads stdout until a text has come so many times."""
        deadline = time.monotonic() + TIMEOUT
        while self.output.count(text) < count:
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert chunk, f"{text!r} came {self.output.count(text)} times in {self.output!r}"
            self.output += chunk

    def finish(self, seconds: float = TIMEOUT) -> tuple[int, bytes, bytes]:
        """Waits for the end and returns exit code, stdout and stderr."""
        output, errors = self.process.communicate(timeout=seconds)
        return self.process.returncode, self.output + (output or b""), errors or b""

    def driver(self) -> int:
        """The process id of the launcher's working half."""
        (child,) = (pid for pid, parent in parents() if parent == self.process.pid)
        return child

    def processes(self) -> list[int]:
        """All living processes of the job, the launcher's own included."""
        tag = f"{MARKER}={self.marker}".encode()
        return [pid for pid in process_ids() if tag in read(f"/proc/{pid}/environ").split(b"\0")]

    def assert_all_gone(self, seconds: float) -> None:
        """Waits for every process of the job to end."""
        deadline = time.monotonic() + seconds
        while left := self.processes():
            with watched(left[0]) as ended:
                assert ended(deadline - time.monotonic()), f"left behind: {describe(left)}"

    def clean_up(self) -> None:
        """Ends what a failed test has left."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def lead_a_session() -> None:
    """What the child does first: no terminal signals from here, and Ctrl-C as in a fresh shell."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def watched(pid: int) -> Iterator[Callable[[float], bool]]:
    """A way to wait for the end of a process that is not a child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield lambda _: True
        return
    try:
        yield lambda seconds: bool(select.select([descriptor], [], [], max(seconds, 0.0))[0])
    finally:
        os.close(descriptor)


def process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parents() -> Iterator[tuple[int, int]]:
    for pid in process_ids():
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if fields:
            yield pid, int(fields[1])


def read(path: str) -> bytes:
    """A file of /proc; empty if its process has gone or belongs to someone else."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def describe(pids: list[int]) -> list[bytes]:
    return [read(f"/proc/{pid}/cmdline").replace(b"\0", b" ") for pid in pids]
