"""What a job leaves behind on hosts where the daemons of a Slurm may run."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from cluster import Cluster
from processes import Process

DAEMONS = ("munged", "slurmctld", "slurmd", "slurmscriptd")


def left_over(hosts: Cluster, within: float) -> list[Process]:
    """The processes that still run after that many seconds; returns early once there are none."""
    end = time.monotonic() + within
    while found := [one for one in hosts.processes() if not _daemon(one)]:
        if time.monotonic() > end:
            return found
        time.sleep(0.05)
    return []


def end_left_over(hosts: Cluster) -> None:
    """Kills what a failed test has left, so that the next one does not find it."""
    end = time.monotonic() + 10
    while (found := left_over(hosts, 0)) and time.monotonic() < end:
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.05)


def _daemon(process: Process) -> bool:
    # One of them calls itself `: slurmscriptd`; a process that has just ended has no name at all.
    words = process.command.lstrip(": ").split()
    return not words or words[0].rpartition("/")[2] in DAEMONS
