"""Processes that another launcher has started: `init()` refuses to train alone, and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
import horovod.numpy as hvd
hvd.init()
print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
"""

# Everything that a launcher could have left in the environment of these tests.
FOREIGN = ("OMPI_", "PMI", "SLURM_", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "HOROVOD_")


def clean(**variables: str) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}
    return {**inherited, **variables}


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=clean(**variables), capture_output=True, text=True, timeout=90
    )


REFUSED = {
    "mpirun": ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, "-np 2 -H "),
    "mpiexec": ({"PMI_SIZE": "4", "PMI_RANK": "1"}, "-np 4 -H "),
    "prun": ({"PMIX_RANK": "1"}, "-np N -H "),
    "srun": (
        {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"},
        "-np 2 python train.py",
    ),
    "torchrun": (
        {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "1"},
        "-np 2 python train.py",
    ),
}

ALONE = [
    {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4"},
    {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"},
    {"OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0", "WORLD_SIZE": "1"},
    {"WORLD_SIZE": "2", "HOROVOD_IGNORE_LAUNCHER": "1"},
]


@pytest.mark.parametrize("launcher", REFUSED)
def test_several_processes_of_another_launcher_do_not_train_alone(launcher: str) -> None:
    variables, instead = REFUSED[launcher]
    process = run([sys.executable, "-c", PROGRAM], **variables)
    assert process.returncode == 1, process.stdout
    assert f"`{launcher}` or a similar launcher started several processes" in process.stderr
    assert f"Start the job with `horovodrun {instead}" in process.stderr, process.stderr
    assert "HOROVOD_IGNORE_LAUNCHER=1" in process.stderr


@pytest.mark.parametrize("variables", ALONE, ids=lambda variables: "-".join(variables))
def test_one_process_of_another_launcher_is_a_job_of_one(variables: dict[str, str]) -> None:
    process = run([sys.executable, "-c", PROGRAM], **variables)
    assert process.stdout == "rank 0 of 1\n", process.stderr


def test_torchrun_is_refused() -> None:
    pytest.importorskip("torch")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    process = run([sys.executable, "-m", *command, sys.executable, "-c", PROGRAM])
    assert process.returncode != 0, process.stdout
    assert "rank 0 of 1" not in process.stdout
    assert "Start the job with `horovodrun -np 2 python train.py`" in process.stderr


@pytest.mark.parametrize("launcher", REFUSED)
def test_horovodrun_works_inside_of_another_launcher(launcher: str) -> None:
    command = ["-m", "horovod.runner.launch", "-np", "2", sys.executable, "-c", PROGRAM]
    process = run([sys.executable, *command], **REFUSED[launcher][0])
    assert process.returncode == 0, process.stderr
    assert "rank 0 of 2" in process.stdout and "rank 1 of 2" in process.stdout


def test_a_rank_that_lost_its_environment_does_not_train_alone(horovodrun: Launch) -> None:
    path = f"PATH={os.environ['PATH']}"
    command = ["env", "-i", path, sys.executable, "-c", PROGRAM]
    job = horovodrun("-np", "2", *command)
    assert job.returncode == 1, job.stdout + job.stderr
    assert "this process runs below horovodrun (process " in job.stderr, job.stderr
    assert "singularity exec --cleanenv" in job.stderr
    job = horovodrun("-np", "2", *command[:3], "HOROVOD_IGNORE_LAUNCHER=1", *command[3:])
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("rank 0 of 1") == 2
