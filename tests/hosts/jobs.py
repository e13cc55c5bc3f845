"""Starts the real `horovodrun` on a host of a cluster and watches it: its output, its end, and the
processes through which it works on other hosts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cluster import Cluster
from host import Host
from processes import Process, wait_ended
from sshd import PORT

HOROVODRUN = str(Path(sys.executable).with_name("horovodrun"))

INTERPRETER = Path(HOROVODRUN).read_text().splitlines()[0].removeprefix("#!")
"""What runs `horovodrun`: another name for this Python, perhaps."""

SPEC = 10.0
"""Seconds in which a job that lost something has to be over, everywhere."""

TIMEOUT = 40.0
"""Seconds for what takes one or two on a machine with nothing else to do."""


@dataclass(frozen=True)
class Ended:
    """How a job ended, what it said, and how long that took."""

    code: int
    output: str
    errors: str
    seconds: float

    def lines(self) -> list[str]:
        """The standard output of all ranks, sorted."""
        return sorted(self.output.splitlines())

    def words(self) -> str:
        """The standard error as one line: where it was broken is no matter."""
        return " ".join(self.errors.split())


class Command:
    """A command on a host that is watched while it runs."""

    def __init__(self, host: Host, *command: str, **options) -> None:
        # Ctrl-C works as in a shell, also where the tests themselves run in the background.
        command = ("env", "--default-signal=INT", *command)
        pipe = subprocess.PIPE
        self._began = time.monotonic()
        self.process = host.popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, **options
        )
        self._changed = threading.Condition()
        self._said: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, stream: IO[str]) -> None:
        for line in stream:
            with self._changed:
                self._said[name].append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def output(self) -> str:
        """What it has written to its standard output so far."""
        return "".join(self._said["stdout"])

    @property
    def errors(self) -> str:
        """What it has written to its standard error so far."""
        return "".join(self._said["stderr"])

    def wait_for(self, words: str, count: int = 1) -> None:
        """Returns when the words have come so many times on standard output."""
        with self._changed:
            came = self._changed.wait_for(
                lambda: self.output.count(words) >= count or self.process.poll() is not None,
                TIMEOUT,
            )
        assert came and self.output.count(words) >= count, self.output + self.errors

    def finish(self, within: float = TIMEOUT) -> Ended:
        """Waits for the end; later than `within` seconds is a failure."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            said = self.output[-5000:] + self.errors[-5000:]
            raise AssertionError(f"still runs after {within} s: {said}") from None
        for reader in self._readers:
            reader.join(5)
        seconds = time.monotonic() - self._began
        return Ended(code, self.output, self.errors, seconds)


class Job(Command):
    """A `horovodrun` on a host, at the port of the cluster's ssh servers."""

    def __init__(self, host: Host, *arguments: str, port: int | None = PORT, **options) -> None:
        at_port = [] if port is None else ["-p", str(port)]
        super().__init__(host, HOROVODRUN, *at_port, *arguments, **options)

    def driver(self) -> int:
        """The launcher's working half."""
        (child,) = children(self.process.pid)
        return child


def run(host: Host, *arguments: str, within: float = TIMEOUT, **options) -> Ended:
    """Runs `horovodrun` to its end."""
    return Job(host, *arguments, **options).finish(within)


def agent(host: Host) -> tuple[int, int]:
    """The two halves of the host's agent: the one that keeps, the one that works."""
    both = [one.pid for one in host.processes() if "horovod.runner.agent" in one.command]
    (supervisor,) = (pid for pid in both if set(children(pid)) & set(both))
    (worker,) = (pid for pid in both if pid != supervisor)
    return supervisor, worker


def new_token() -> str:
    """A token for agents that are started by hand."""
    command = [HOROVODRUN, "agent", "--new-token"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def free_port(host: Host) -> int:
    """A port at which nothing listens on the host."""
    script = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"
    return int(host.run([INTERPRETER, "-c", script]).stdout)


def ssh_to(host: Host, target: str) -> int:
    """The `ssh` client on `host` that holds the agent of `target`."""
    clients = (one for one in host.processes() if one.command.startswith("ssh "))
    (client,) = (one.pid for one in clients if f" {target} " in one.command)
    return client


def children(pid: int) -> list[int]:
    return [child for child, parent in _parents() if parent == pid]


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            yield int(name), int(fields[1])


def named(host: Host, command: str) -> list[Process]:
    """The host's processes with exactly this command line, once there is one: a shell may still
    be about to become it."""
    end = time.monotonic() + SPEC
    while not (found := [one for one in host.processes() if one.command == command]):
        assert time.monotonic() < end, f"no `{command}` on {host.name}"
        time.sleep(0.01)
    return found


def kill(*pids: int) -> None:
    """Ends processes as the kernel does when memory runs out."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def ends(process: Process, by: float) -> bool:
    """Whether a process ends by that time."""
    try:
        file = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        return wait_ended(file, by)
    finally:
        os.close(file)


def assert_nothing_left(cluster: Cluster, within: float = SPEC) -> None:
    """No process of the job is left on any host."""
    end = time.monotonic() + within
    for host in cluster:
        if left := host.left_over(max(0.0, end - time.monotonic())):
            # The next test finds the hosts clean.
            kill(*(process.pid for process in left))
            raise AssertionError(f"left on {host.name}: {left}")
