"""Processes that another launcher has started: `init()` finds the others, or refuses.


Real launchers of MPI and Slurm are in tests/hpc.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
import horovod.numpy as hvd
hvd.init()
print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
"""

# Everything that a launcher could have left in the environment of these tests.
FOREIGN = (
    "OMPI_",
    "PMI",
    "SLURM_",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "RANK",
    "MASTER_",
    "HOROVOD_",
)


def clean(**variables: str) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}
    return {**inherited, **variables}


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=clean(**variables), capture_output=True, text=True, timeout=90
    )


# What is there by half, or contradicts itself, with the words of the error.
REFUSED = {
    "mpirun": ({"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK is not set"),
    "mpiexec": ({"PMI_SIZE": "4"}, "PMI_RANK is not set"),
    "prterun": ({"PMIX_RANK": "1"}, "PMIX_NAMESPACE is not set"),
    "srun": ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}, "SLURM_PROCID is not set"),
    "torchrun": ({"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, "RANK is not set"),
}

CONTRADICTION = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "RANK": "0",
    "WORLD_SIZE": "2",
}

ALONE = [
    {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4"},
    {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"},
    {"OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0", "WORLD_SIZE": "1"},
    {"WORLD_SIZE": "2", "HOROVOD_IGNORE_LAUNCHER": "1"},
]


@pytest.mark.parametrize("launcher", REFUSED)
def test_half_of_a_launchers_variables_is_refused(launcher: str) -> None:
    variables, words = REFUSED[launcher]
    process = run([sys.executable, "-c", PROGRAM], **variables)
    assert process.returncode == 1, process.stdout
    assert f"`{launcher}` or a similar launcher started several processes" in process.stderr
    assert words in process.stderr, process.stderr
    # The remedy.
    alone = run([sys.executable, "-c", PROGRAM], **variables, HOROVOD_IGNORE_LAUNCHER="1")
    assert alone.stdout == "rank 0 of 1\n", alone.stderr


def test_launchers_that_contradict_each_other_are_refused() -> None:
    process = run([sys.executable, "-c", PROGRAM], **CONTRADICTION)
    assert process.returncode == 1, process.stdout
    assert "the variables of two launchers contradict" in process.stderr, process.stderr
    remedy = {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "1"}
    process = run([sys.executable, "-c", PROGRAM], **CONTRADICTION, **remedy)
    assert process.stdout == "rank 0 of 1\n", process.stderr


@pytest.mark.parametrize("variables", ALONE, ids=lambda variables: "-".join(variables))
def test_one_process_of_another_launcher_is_a_job_of_one(variables: dict[str, str]) -> None:
    process = run([sys.executable, "-c", PROGRAM], **variables)
    assert process.stdout == "rank 0 of 1\n", process.stderr


def test_torchrun_starts_a_job(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    process = run(
        [sys.executable, "-m", *command, sys.executable, "-c", PROGRAM], HOME=str(tmp_path)
    )
    assert process.returncode == 0, process.stderr
    assert sorted(process.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    # The key does not stay behind.
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def start_by_hand(rank: int, key: Path, port: int) -> subprocess.Popen[str]:
    variables = {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": "2",
        "HOROVOD_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_RENDEZVOUS_PORT": str(port),
        "HOROVOD_SECRET_KEY_FILE": str(key),
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=clean(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ranks_can_be_started_by_hand(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["sh", "-c", f"(umask 077; openssl rand -hex 32 > {key})"], check=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # The other one first: it waits until rank 0 listens.
    ranks = [start_by_hand(rank, key, port) for rank in (1, 0)]
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    assert [output for output, _ in outputs] == ["rank 1 of 2\n", "rank 0 of 2\n"], outputs


PART = """
import horovod.numpy as hvd, numpy as np, os
world = int(os.environ["HOROVOD_RANK"])
if world == 1:
    print("apart", flush=True)
else:
    hvd.init(comm=[2, 0])
    total = hvd.allreduce(np.array([world + 1.0]), op=hvd.Sum)[0]
    print(f"{world} is rank {hvd.rank()} of {hvd.size()}, sum {total}", flush=True)
"""


def test_some_of_the_ranks_of_horovodrun_make_a_job(horovodrun: Launch) -> None:
    job = horovodrun("-np", "3", sys.executable, "-c", PART)
    assert job.returncode == 0, job.stderr
    lines = {line.split(">:")[-1].strip() for line in job.stdout.splitlines()}
    assert lines == {"apart", "0 is rank 1 of 2, sum 4.0", "2 is rank 0 of 2, sum 4.0"}


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
