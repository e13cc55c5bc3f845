"""What goes wrong under launchers of others: a rank or the launcher dies, Ctrl-C, too many ranks.

A job that lost something ends within seconds, its launcher with an exit code other than 0, and no
process is left on any host.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import Command
from launchers import LAUNCHERS, Launcher
from left_over import left_over
from ranks import PROGRAM, PYTHON, place, reports
from slurm import Slurm
from start import finished, mpirun, srun

ENDLESS = str(Path(__file__).with_name("endless.py"))
ON = {"f1": 2, "f2": 2}
RANKS = 4
START = 40.0
END = 15.0


def ready(job: Command, folder: Path) -> dict[int, int]:
    """Process ids by rank, once all ranks reduce."""
    end = time.monotonic() + START
    files = [folder / f"ready.{rank}" for rank in range(RANKS)]
    while not all(file.exists() for file in files):
        assert job.process.poll() is None, job.output + job.errors
        assert time.monotonic() < end, job.output + job.errors
        time.sleep(0.05)
    return {rank: int(file.read_text().split()[0]) for rank, file in enumerate(files)}


def errors(folder: Path) -> dict[int, str]:
    """What survivors raised, by rank."""
    return {int(file.suffix[1:]): file.read_text() for file in folder.glob("error.*")}


def start(hosts: Cluster, launcher: Launcher, folder: Path) -> Command:
    return mpirun(hosts, launcher, RANKS, PYTHON, ENDLESS, str(folder), on=ON)


def test_rank_killed_under_mpirun(hosts: Cluster, launcher: Launcher, tmp_path: Path) -> None:
    """`mpirun` may end the survivors before they have said anything; what they say is right."""
    job = start(hosts, launcher, tmp_path)
    os.kill(ready(job, tmp_path)[3], signal.SIGKILL)
    ended = job.finish(END)
    assert ended.code != 0
    assert left_over(hosts, END) == []
    for error in errors(tmp_path).values():
        assert "rank 3" in error and "f2" in error, error


@pytest.mark.parametrize("kind", ["none", "pmi2", "pmix"])
def test_rank_killed_under_srun(slurm: Slurm, hosts: Cluster, kind: str, tmp_path: Path) -> None:
    """`srun` does not end the survivors; they notice by themselves, and all name the dead rank."""
    nodes = ["-N2", "--ntasks-per-node=2", "--kill-on-bad-exit=0"]
    job = srun(slurm, f"--mpi={kind}", *nodes, PYTHON, ENDLESS, str(tmp_path))
    os.kill(ready(job, tmp_path)[3], signal.SIGKILL)
    assert job.finish(END).code != 0
    assert left_over(hosts, END) == []
    said = errors(tmp_path)
    assert sorted(said) == [0, 1, 2]
    for error in said.values():
        assert "rank 3" in error and "f2" in error, error


def test_first_rank_killed_under_srun(slurm: Slurm, hosts: Cluster, tmp_path: Path) -> None:
    """Rank 0 serves the job's store; without it, too, the others end."""
    job = srun(slurm, "--mpi=pmix", "-N2", "--ntasks-per-node=2", PYTHON, ENDLESS, str(tmp_path))
    os.kill(ready(job, tmp_path)[0], signal.SIGKILL)
    assert job.finish(END).code != 0
    assert left_over(hosts, END) == []
    said = errors(tmp_path)
    assert said and all("rank 0" in error and "f1" in error for error in said.values()), said


def test_launcher_killed(hosts: Cluster, launcher: Launcher, tmp_path: Path) -> None:
    job = start(hosts, launcher, tmp_path)
    ready(job, tmp_path)
    job.process.kill()
    assert job.finish(END).code != 0
    assert left_over(hosts, END) == []


def test_interrupt(hosts: Cluster, launcher: Launcher, tmp_path: Path) -> None:
    job = start(hosts, launcher, tmp_path)
    ready(job, tmp_path)
    os.killpg(job.process.pid, signal.SIGINT)
    assert job.finish(END).code != 0
    assert left_over(hosts, END) == []


def test_step_cancelled(slurm: Slurm, hosts: Cluster, tmp_path: Path) -> None:
    job = srun(slurm, "--mpi=pmix", "-N2", "--ntasks-per-node=2", PYTHON, ENDLESS, str(tmp_path))
    ready(job, tmp_path)
    slurm.run("scancel", "--user=root")
    assert job.finish(END).code != 0
    assert slurm.drain()
    assert left_over(hosts, END) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openmpi-4", "mpich-4"])
def test_sixty_four_ranks_on_one_host(hosts: Cluster, name: str) -> None:
    job = mpirun(hosts, LAUNCHERS[name], 64, PYTHON, PROGRAM)
    assert reports(finished(job, within=110).output) == place({"f1": 64})
