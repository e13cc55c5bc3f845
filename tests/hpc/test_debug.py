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

NO_JOB = "no job of yours is running on this machine"


def debug(hosts: Cluster, *arguments: str) -> str:
    """What it prints on `f1`."""
    done = hosts["f1"].run([HOROVODRUN, "debug", *arguments])
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
    job = mpirun(hosts, launcher, 4, PYTHON, ENDLESS, str(tmp_path), on=ON)
    processes = ready(job, tmp_path)
    check(debug(hosts), processes)
    # Any of its processes means the job; on a host without rank 0 there is none.
    check(debug(hosts, str(processes[3])), processes)
    assert NO_JOB in hosts["f2"].run([HOROVODRUN, "debug"]).stderr
    os.killpg(job.process.pid, signal.SIGINT)
    assert job.finish(END).code != 0
    assert NO_JOB in debug(hosts)


def test_job_of_srun(slurm: Slurm, hosts: Cluster, tmp_path: Path) -> None:
    nodes = ["--mpi=pmi2", "-N2", "--ntasks-per-node=2"]
    job = srun(slurm, *nodes, PYTHON, ENDLESS, str(tmp_path))
    check(debug(hosts), ready(job, tmp_path))
    slurm.run("scancel", "--user=root")
    assert job.finish(END).code != 0
    assert slurm.drain()
    assert NO_JOB in debug(hosts)
