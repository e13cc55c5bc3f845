"""Namespaces, each kept by a process, the scratch directory they hang on, and their removal.

Nothing here is named in the machine's own namespaces: no `ip netns` entry, no interface, no mount.
What a killed run leaves behind is therefore processes and one scratch directory. The directory is
recognised by its prefix and by its lock, which is free; the processes by their mount namespace,
which has the directory mounted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from processes import kill_inside

PREFIX = "hvd-hosts-"
HOLDER = Path(__file__).with_name("holder.sh")


class Scratch:
    """A directory that is locked for as long as its owner lives."""

    def __init__(self) -> None:
        new = Path(tempfile.mkdtemp(prefix="hvd-new-"))
        new.chmod(0o755)
        self._lock = os.open(new, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Renamed only now: a sweep must never see it unlocked.
        self.path = new.with_name(f"{PREFIX}{os.getpid()}-{new.name[-8:]}")
        new.rename(self.path)

    def remove(self) -> None:
        """Ends every process of the cluster and removes the directory."""
        try:
            kill_inside(self.path)
        finally:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)


def sweep() -> list[Path]:
    """Removes what runs that were killed have left; returns their scratch directories."""
    swept = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), _stale(path):
            kill_inside(path)
            shutil.rmtree(path)
            swept.append(path)
    return swept


@contextlib.contextmanager
def _stale(path: Path) -> Iterator[None]:
    """Holds the lock of a directory without an owner; OSError if it has one."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


class Namespace:
    """Network, mount, UTS and IPC namespaces, and the process that keeps them."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self.directory = scratch / name
        self.directory.mkdir()
        setup = ["sh", str(HOLDER), name, str(self.directory), os.path.expanduser("~root")]
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--ipc", "--propagation=private", *setup],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._holder.pid
        (scratch / f"{name}.pid").write_text(f"{self.pid}\n")

    def wait_ready(self) -> None:
        """Returns when the holder has set everything up; it says so, or ends with an error."""
        assert self._holder.stdout and self._holder.stderr
        if self._holder.stdout.readline() != "ready\n":
            raise RuntimeError(f"host {self.name}: {self._holder.stderr.read().strip()}")

    def command(self, command: Sequence[str], cwd: str = "/") -> list[str]:
        """The command that runs `command` inside, in the directory `cwd` as seen there."""
        enter = ["nsenter", f"--target={self.pid}", "--net", "--mount", "--uts", "--ipc"]
        return [*enter, "--", "env", "-C", cwd, *command]

    def do(self, *command: str, lines: Sequence[str] | None = None) -> str:
        """Runs a short command inside, with `lines` as its input; an error is an exception."""
        text = None if lines is None else "".join(line + "\n" for line in lines)
        done = subprocess.run(
            self.command(command), input=text, capture_output=True, text=True, timeout=20
        )
        if done.returncode != 0:
            raise RuntimeError(f"host {self.name}: {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def path(self, path: str) -> Path:
        """A file of the host, as a path that can be read and written from outside."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    def close(self) -> None:
        """Collects the holder, after `Scratch.remove` has ended it with all the others."""
        self._holder.communicate(timeout=10)
