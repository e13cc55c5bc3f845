"""Variables of launchers that are missing, wrong or hidden: an error says which, and no rank ever
trains alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import Cluster
from jobs import Ended
from launchers import LAUNCHERS
from ranks import PROGRAM, PYTHON, place, reports
from slurm import Slurm
from start import mpirun, srun

OPEN_MPI = LAUNCHERS["openmpi-4"]
MPICH = LAUNCHERS["mpich-4"]
SHORT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "5"}
RANK = f"exec {PYTHON} {PROGRAM}"


def refused(ended: Ended) -> str:
    """The errors of a job in which no rank has trained, as one line."""
    assert ended.code != 0
    assert reports(ended.output) == [], ended.output
    return ended.words()


def test_contradicting_ranks(hosts: Cluster) -> None:
    swap = f"export PMIX_RANK=$((1 - PMIX_RANK)); {RANK}"
    words = refused(mpirun(hosts, OPEN_MPI, 2, "sh", "-c", swap).finish())
    assert "the variables of two launchers contradict" in words, words
    assert "OMPI_COMM_WORLD_RANK=" in words and "PMIX_RANK=" in words, words
    assert "HOROVOD_RANK and HOROVOD_SIZE" in words, words


def test_rank_is_not_a_number(hosts: Cluster) -> None:
    job = mpirun(hosts, MPICH, 2, "env", "PMI_RANK=first", PYTHON, PROGRAM)
    assert "PMI_RANK=`first`" in refused(job.finish())


def test_rank_outside_of_the_job(hosts: Cluster) -> None:
    job = mpirun(hosts, MPICH, 2, "env", "PMI_RANK=7", PYTHON, PROGRAM)
    assert "PMI_RANK=7 must be less than PMI_SIZE=2" in refused(job.finish())


def test_missing_rank(hosts: Cluster) -> None:
    job = mpirun(hosts, MPICH, 2, "env", "-u", "PMI_RANK", PYTHON, PROGRAM)
    words = refused(job.finish())
    assert "PMI_SIZE=2 shows that" in words and "PMI_RANK is not set" in words, words


def test_missing_rank_that_pmix_knows(hosts: Cluster) -> None:
    """Open MPI says it twice: one of the two is enough."""
    job = mpirun(hosts, OPEN_MPI, 2, "env", "-u", "OMPI_COMM_WORLD_RANK", PYTHON, PROGRAM)
    ended = job.finish()
    assert reports(ended.output) == place({"f1": 2}), ended.errors


def test_one_rank_does_not_see_its_launcher(slurm: Slurm) -> None:
    """`srun` around something that hides the variables from one rank: both say so, none trains."""
    hide = f"if [ $SLURM_PROCID = 1 ]; then exec env -i {PYTHON} {PROGRAM}; fi; {RANK}"
    step = srun(slurm, "-n2", "-N1", "sh", "-c", hide, env=SHORT)
    words = refused(step.finish())
    assert "this process runs below `srun`" in words, words
    assert "rank 0 of 2 waited" in words and "1 ranks (1)" in words, words


def test_host_whose_own_name_does_not_resolve(hosts: Cluster) -> None:
    """Ranks find each other by addresses: names that no other host knows do not matter."""
    hosts["f2"].run("hostname compute-0-2.local")
    try:
        job = mpirun(hosts, MPICH, 4, PYTHON, PROGRAM, on={"f1": 2, "f2": 2})
        ended = job.finish()
    finally:
        hosts["f2"].run("hostname f2")
    assert reports(ended.output) == place({"f1": 2, "compute-0-2.local": 2}), ended.errors


def test_address_that_does_not_resolve(hosts: Cluster, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text("5a" * 32)
    variables = {
        **SHORT,
        "HOROVOD_RENDEZVOUS_ADDR": "nowhere.invalid",
        "HOROVOD_RENDEZVOUS_PORT": "40001",
        "HOROVOD_SECRET_KEY_FILE": str(key),
    }
    words = refused(mpirun(hosts, MPICH, 2, PYTHON, PROGRAM, env=variables).finish())
    assert "cannot reach the key-value store of rank 0" in words, words
    assert "nowhere.invalid" in words, words


@pytest.mark.parametrize("launcher", [OPEN_MPI, MPICH], ids=str)
def test_ignored_launcher_makes_jobs_of_one(hosts: Cluster, launcher) -> None:
    job = mpirun(hosts, launcher, 2, "env", "HOROVOD_IGNORE_LAUNCHER=1", PYTHON, PROGRAM)
    ended = job.finish()
    assert [report["size"] for report in reports(ended.output)] == [1, 1], ended.errors
