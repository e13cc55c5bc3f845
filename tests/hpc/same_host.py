"""Nodes of a Slurm where no namespaces can be made: this machine, under several names.

Each has its own `slurmd`, but all have the machine's host name and the loopback address, so that
Horovod rightly sees one host. Tests about several hosts need the real thing (`tests/hosts`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence


class SameHost:
    """Has as much of `Host` as a node of a Slurm needs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hostname = socket.gethostname()

    def address(self) -> str:
        """The address of the node's `slurmd`."""
        return "127.0.0.1"

    def popen(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, **options
    ) -> subprocess.Popen[str]:
        """Starts a command in a process group of its own."""
        variables = {**os.environ, **(env or {})}
        return subprocess.Popen(
            command, env=variables, text=True, start_new_session=True, **options
        )

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float = 30,
        env: Mapping[str, str] | None = None,
        **options,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end; past the timeout its process group is killed."""
        pipe = subprocess.PIPE
        quiet = subprocess.DEVNULL
        process = self.popen(command, env=env, stdin=quiet, stdout=pipe, stderr=pipe, **options)
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)
