"""`horovodrun --mpi` over hosts, which `mpirun` reaches as `horovodrun` was told about ssh."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import Job, assert_nothing_left, run
from sshd import PORT

FAMILIES = {"openmpi": "mpirun.openmpi", "mpich": "mpirun.mpich"}

TWO_EACH = ("--mpi", "-np", "4", "-H", "hosta:2,hostb:2")

SUM = """
import os, horovod.numpy as hvd
hvd.init()
total = hvd.allreduce(float(hvd.rank() + 1), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()} on {os.uname().nodename}: {float(total)}", flush=True)
"""


@pytest.fixture(params=FAMILIES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """An environment in which `mpirun` is that of a family."""
    program = shutil.which(FAMILIES[request.param])
    if program is None:
        pytest.skip("not installed: `apt-get install openmpi-bin mpich`")
    script = tmp_path / "mpirun"
    script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    script.chmod(0o755)
    ambient = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": f"{tmp_path}:{ambient}"}


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


def test_ranks_of_two_hosts_find_each_other(cluster: Cluster, path: dict[str, str]) -> None:
    ended = run(cluster["hosta"], *TWO_EACH, "python", "-c", SUM, env=path)
    assert ended.code == 0, ended
    places = ["hosta", "hosta", "hostb", "hostb"]
    for rank, host in enumerate(places):
        assert f"rank {rank} of 4 on {host}: 10.0" in ended.output, ended


def test_ctrl_c_ends_the_ranks_of_all_hosts(cluster: Cluster, path: dict[str, str]) -> None:
    job = Job(cluster["hosta"], *TWO_EACH, "sh", "-c", "echo up; exec sleep 1000", env=path)
    job.wait_for("up", 4)
    job.process.terminate()
    assert job.finish().code == 143


def test_a_killed_launcher_ends_the_ranks_of_all_hosts(
    cluster: Cluster, path: dict[str, str]
) -> None:
    job = Job(cluster["hosta"], *TWO_EACH, "sh", "-c", "echo up; exec sleep 1000", env=path)
    job.wait_for("up", 4)
    job.process.kill()
    job.process.wait(10)


def test_a_refused_login_is_explained(cluster: Cluster, path: dict[str, str]) -> None:
    ended = run(cluster["hosta"], *TWO_EACH, "true", port=PORT + 1, env=path)
    assert ended.code == 1
    assert "hostb" in ended.errors and f"port {PORT + 1}" in ended.errors, ended
    assert "mpirun" not in ended.errors
