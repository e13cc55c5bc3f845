"""Starts jobs by `mpirun` and `srun` on the hosts of the lab, and waits in bounded time."""

from __future__ import annotations

from collections.abc import Mapping

from cluster import Cluster
from jobs import Command, Ended
from launchers import Launcher
from slurm import Slurm

TIMEOUT = 60.0


def mpirun(
    hosts: Cluster,
    launcher: Launcher,
    ranks: int,
    *program: str,
    on: Mapping[str, int] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Command:
    """Starts a job from `f1`, there or `on` several hosts with so many slots each."""
    command = launcher.command(ranks, *program, hosts=on)
    variables = {**launcher.environment, **(env or {})}
    return Command(hosts["f1"], *command, env=variables, cwd=cwd)


def srun(slurm: Slurm, *arguments: str, env: Mapping[str, str] | None = None) -> Command:
    """Starts a step of a job of its own."""
    return Command(slurm.nodes[0], "srun", *arguments, env={**slurm.environment, **(env or {})})


def finished(job: Command, within: float = TIMEOUT) -> Ended:
    """Waits for a job that must succeed."""
    ended = job.finish(within)
    assert ended.code == 0, f"exit {ended.code}: {ended.output[-3000:]}{ended.errors[-3000:]}"
    return ended
