"""`horovodrun debug` on jobs that other launchers have started: asked on the host of rank 0."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import HOROVODRUN
from launchers import FAMILIES, Launcher
from ranks import PYTHON
from slurm import Slurm
from start import mpirun, srun
from test_faults import END, ENDLESS, ON, ready


def sockets(folder: Path) -> dict[str, str]:
    """Has jobs and questions meet in a directory of this test's."""
    return {"XDG_RUNTIME_DIR": str(folder)}


def debug(hosts: Cluster, folder: Path, *arguments: str) -> str:
    """What it prints on `f1`."""
    done = hosts["f1"].run([HOROVODRUN, "debug", *arguments], env=sockets(folder))
    return done.stdout + done.stderr


def check(shown: str, processes: dict[int, int]) -> None:
    """All ranks are there, and they answer."""
    assert shown.startswith(f"job {processes[0]}: 4 ranks, running for "), shown
    assert f"{ENDLESS}" in shown
    for host in ON:
        assert f"{host} " in shown, shown
    assert "\ntransport: shared memory" in shown, shown


@pytest.mark.parametrize("launcher", FAMILIES, indirect=True, ids=str)
def test_job_of_mpirun(hosts: Cluster, launcher: Launcher, tmp_path: Path) -> None:
    program = (PYTHON, ENDLESS, str(tmp_path))
    job = mpirun(hosts, launcher, 4, *program, on=ON, env=sockets(tmp_path))
    processes = ready(job, tmp_path)
    # Any of its processes means the job.
    for rank in (0, 3):
        check(debug(hosts, tmp_path, str(processes[rank])), processes)
    os.killpg(job.process.pid, signal.SIGINT)
    assert job.finish(END).code != 0
    # What a killed rank 0 has left is removed by the next question.
    debug(hosts, tmp_path)
    assert list(tmp_path.glob("horovod/*.sock")) == []


def test_job_of_srun(slurm: Slurm, hosts: Cluster, tmp_path: Path) -> None:
    nodes = ["--mpi=pmi2", "-N2", "--ntasks-per-node=2"]
    job = srun(slurm, *nodes, PYTHON, ENDLESS, str(tmp_path), env=sockets(tmp_path))
    processes = ready(job, tmp_path)
    check(debug(hosts, tmp_path, str(processes[0])), processes)
    slurm.run("scancel", "--user=root")
    assert job.finish(END).code != 0
    assert slurm.drain()
    # What a killed rank 0 has left is removed by the next question.
    debug(hosts, tmp_path)
    assert list(tmp_path.glob("horovod/*.sock")) == []
