"""MPI moves the tensors between hosts: HOROVOD_CPU_OPERATIONS=mpi under every `mpirun`, alone and
with mpi4py, and what is refused with which remedy."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import Ended
from launchers import FAMILIES, Launcher
from left_over import left_over
from start import finished, mpirun
from test_faults import END, ENDLESS, ON, errors, ready

PROGRAM = str(Path(__file__).with_name("data_plane.py"))
MPI = {"HOROVOD_CPU_OPERATIONS": "mpi"}


def reports(ended: Ended) -> list[dict]:
    """What the ranks printed, by rank. A launcher may put two on one line."""
    found = [json.loads(text) for text in re.findall(r"\{[^{}]*\}", ended.output)]
    return sorted(found, key=lambda report: report.get("rank", 0))


def run(hosts: Cluster, launcher: Launcher, *arguments: str, on=None, env=None) -> list[dict]:
    """Reports of the ranks of a job that succeeds."""
    on = on or ON
    settings = passed(launcher, {**MPI, **(env or {})})
    job = mpirun(hosts, launcher, sum(on.values()), *settings, PROGRAM, *arguments, on=on)
    return reports(finished(job))


def passed(launcher: Launcher, settings: dict[str, str]) -> list[str]:
    """Python with settings, also on hosts to which the launcher passes no variables."""
    return ["env", *(f"{name}={value}" for name, value in settings.items()), sys.executable]


def test_tensors_travel_through_mpi(hosts: Cluster, launcher: Launcher) -> None:
    ranks = run(hosts, launcher)
    assert [report["rank"] for report in ranks] == [0, 1, 2, 3]
    assert {report["transport"] for report in ranks} == {"shared memory and mpi"}
    assert all(report["enabled"] and report["threads"] for report in ranks)


@pytest.mark.parametrize("launcher", FAMILIES, indirect=True, ids=str)
def test_one_rank_per_host(hosts: Cluster, launcher: Launcher) -> None:
    ranks = run(hosts, launcher, on={"f1": 1, "f2": 1, "f3": 1})
    assert {report["transport"] for report in ranks} == {"mpi"}


@pytest.mark.parametrize("launcher", FAMILIES, indirect=True, ids=str)
def test_one_thread_at_a_time(hosts: Cluster, launcher: Launcher) -> None:
    ranks = run(hosts, launcher, env={"HOROVOD_MPI_THREADS_DISABLE": "1"})
    assert {report["transport"] for report in ranks} == {"shared memory and mpi"}
    assert all(report["enabled"] for report in ranks)


def test_mpi4py_has_initialized_mpi(hosts: Cluster) -> None:
    pytest.importorskip("mpi4py")
    ranks = run(hosts, FAMILIES[0], "multiple")
    assert [report["mpi4py"] for report in ranks] == [4] * 4
    assert all(report["threads"] for report in ranks)


@pytest.mark.parametrize(
    ("before", "reason", "remedy"),
    [
        ("finalized", "cannot be initialized again", "call `hvd.init()` before"),
        ("funneled", "calls from one thread only", "mpi4py.rc.thread_level"),
    ],
)
def test_mpi_in_a_state_that_cannot_be_used(
    hosts: Cluster, before: str, reason: str, remedy: str
) -> None:
    pytest.importorskip("mpi4py")
    settings = passed(FAMILIES[0], MPI)
    ended = mpirun(hosts, FAMILIES[0], 2, *settings, PROGRAM, before).finish(60)
    assert ended.code != 0
    refusals = [report["refused"] for report in reports(ended)]
    assert refusals and all(reason in text and remedy in text for text in refusals), ended


@pytest.mark.parametrize("launcher", FAMILIES, indirect=True, ids=str)
def test_a_library_that_cannot_be_opened(
    hosts: Cluster, launcher: Launcher, tmp_path: Path
) -> None:
    library = tmp_path / "libmpi.so"
    library.write_text("not a library" * 100)
    settings = passed(launcher, {**MPI, "HOROVOD_MPI_LIBRARY": str(library)})
    ended = mpirun(hosts, launcher, 2, *settings, PROGRAM).finish(60)
    assert ended.code != 0
    (refusal, *_) = [report["refused"] for report in reports(ended)]
    assert str(library) in refusal and "set HOROVOD_MPI_LIBRARY" in refusal


def test_ranks_that_no_mpi_launcher_started(hosts: Cluster) -> None:
    job = hosts["f1"].run(["horovodrun", "-np", "2", sys.executable, PROGRAM], env=MPI)
    assert job.returncode != 0
    assert "`horovodrun --mpi -np N" in job.stderr, job.stdout + job.stderr


def test_rank_killed_while_mpi_moves_tensors(
    hosts: Cluster, launcher: Launcher, tmp_path: Path
) -> None:
    settings = passed(launcher, MPI)
    job = mpirun(hosts, launcher, 4, *settings, ENDLESS, str(tmp_path), on=ON)
    os.kill(ready(job, tmp_path)[3], signal.SIGKILL)
    assert job.finish(END).code != 0
    assert left_over(hosts, END) == []
    for error in errors(tmp_path).values():
        assert "rank 3" in error and "f2" in error, error
