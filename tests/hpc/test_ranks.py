"""Every rank finds its place: under each `mpirun` and kind of `srun`, and where the launcher says
no more than rank and size."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cluster import Cluster
from launchers import LAUNCHERS, Launcher
from ranks import PROGRAM, PYTHON, place, reports
from slurm import Slurm
from start import finished, mpirun, srun

KINDS = ("none", "pmi2", "pmix")
TWO_HOSTS = {"f1": 2, "f2": 2}
LINE = "import horovod.numpy as hvd; hvd.init(); print(hvd.rank(), hvd.local_rank(), hvd.size())\n"
ONE_AFTER_ANOTHER = """
import time
import horovod.numpy as hvd
hvd.init()
rank = hvd.rank()
hvd.shutdown()
time.sleep(rank / 2)
print("end", rank, flush=True)
"""


def test_mpirun_on_one_host(hosts: Cluster, launcher: Launcher) -> None:
    ended = finished(mpirun(hosts, launcher, 4, PYTHON, PROGRAM))
    assert reports(ended.output) == place({"f1": 4})
    assert ended.errors == ""


def test_mpirun_on_two_hosts(hosts: Cluster, launcher: Launcher) -> None:
    ended = finished(mpirun(hosts, launcher, 4, PYTHON, PROGRAM, on=TWO_HOSTS))
    assert reports(ended.output) == place(TWO_HOSTS)


def test_ranks_of_mpirun_that_end_one_after_another(hosts: Cluster, launcher: Launcher) -> None:
    """A launcher may take a rank that exits without finalizing for one that failed."""
    ended = finished(mpirun(hosts, launcher, 3, PYTHON, "-c", ONE_AFTER_ANOTHER))
    assert ended.lines() == ["end 0", "end 1", "end 2"]


def test_one_rank_of_mpirun_is_a_job(hosts: Cluster, launcher: Launcher) -> None:
    ended = finished(mpirun(hosts, launcher, 1, PYTHON, PROGRAM))
    assert reports(ended.output) == place({"f1": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_srun_on_two_nodes(slurm: Slurm, kind: str) -> None:
    step = srun(slurm, f"--mpi={kind}", "-N2", "--ntasks-per-node=2", "python", "-c", LINE)
    ended = finished(step)
    assert ended.lines() == ["0 0 4", "1 1 4", "2 0 4", "3 1 4"]


@pytest.mark.parametrize("kind", KINDS)
def test_srun_with_uneven_nodes(slurm: Slurm, hosts: Cluster, kind: str) -> None:
    """Three ranks on one node, one on the other: what `srun -n 4 -N 2` does with 8 cores each."""
    ended = finished(srun(slurm, f"--mpi={kind}", "-n4", "-N2", PYTHON, PROGRAM))
    assert reports(ended.output) == place({"f1": 3, "f2": 1})


def test_mpirun_inside_a_batch_job(slurm: Slurm, hosts: Cluster, tmp_path: Path) -> None:
    """Each rank sees the variables of Slurm for the daemon that started it; `mpirun` wins."""
    launcher = LAUNCHERS["openmpi-4"]
    script = tmp_path / "job.sh"
    output = tmp_path / "output"
    words = [launcher.program, *launcher.oversubscribe, "-np", "4", PYTHON, PROGRAM]
    script.write_text(f"#!/bin/sh\n{' '.join(words)}\n")
    resources = ["-N2", "--ntasks-per-node=2", f"--output={output}"]
    done = slurm.run("sbatch", "--wait", *resources, str(script), env=launcher.environment)
    assert done.returncode == 0, done.stderr + output.read_text()
    assert reports(output.read_text()) == place(TWO_HOSTS)


def test_shell_of_an_allocation_is_no_rank(slurm: Slurm) -> None:
    """`salloc -n 4` sets SLURM_NTASKS, but a process in its shell is alone."""
    done = slurm.run("salloc", "-n4", "-N2", "python", "-c", LINE)
    assert done.stdout == "0 0 1\n", done.stderr


def by_hand(variables: list[Mapping[str, str]]) -> list[str]:
    """Starts one process for each set of variables, as a shell loop would; their outputs."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LINE],
            env={**os.environ, **one},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for one in variables
    ]
    outputs = []
    try:
        for process in started:
            output, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
            outputs.append(output.strip())
    finally:
        for process in started:
            process.kill()
            process.wait()
    return outputs


def test_ranks_by_hand_meet_in_a_directory(tmp_path: Path) -> None:
    common = {"HOROVOD_SIZE": "3", "HOROVOD_BOOTSTRAP_DIR": str(tmp_path / "job")}
    outputs = by_hand([{**common, "HOROVOD_RANK": str(rank)} for rank in range(3)])
    assert outputs == ["0 0 3", "1 1 3", "2 2 3"]
    assert not list(tmp_path.rglob("*announce*")), "the key stays behind"


def test_ranks_by_hand_meet_at_an_address(tmp_path: Path, free_port: int) -> None:
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text(os.urandom(32).hex())
    common = {
        "HOROVOD_SIZE": "3",
        "HOROVOD_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_RENDEZVOUS_PORT": str(free_port),
        "HOROVOD_SECRET_KEY_FILE": str(key),
    }
    outputs = by_hand([{**common, "HOROVOD_RANK": str(rank)} for rank in range(3)])
    assert outputs == ["0 0 3", "1 1 3", "2 2 3"]


def test_torchrun(hosts: Cluster) -> None:
    pytest.importorskip("torch")
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--no-python"]
    done = hosts["f1"].run([PYTHON, "-m", *torchrun, PYTHON, PROGRAM], timeout=60)
    assert reports(done.stdout) == place({"f1": 4}), done.stderr
