"""The tests of tests/parallel, short form, with ranks that `mpirun` or `srun` started on two hosts.

Every test there is a job of its own: ranks find each other once, then init and shutdown many times.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import Cluster
from launchers import FAMILIES, Launcher
from ranks import PYTHON
from slurm import Slurm
from start import finished, mpirun, srun

PARALLEL = Path(__file__).parents[1] / "parallel"
SHORT = ("allreduce", "broadcast", "objects", "process_sets", "lifecycle")
# One test compares with the variables of `horovodrun`; test_ranks.py has what it is about.
NOT_HERE = "not the_place_is_the_launchers"
PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", NOT_HERE]
TESTS = [str(PARALLEL / f"test_{name}.py") for name in SHORT]
ON = {"f1": 2, "f2": 2}


@pytest.mark.parametrize("launcher", FAMILIES, indirect=True, ids=str)
def test_under_mpirun(hosts: Cluster, launcher: Launcher) -> None:
    finished(mpirun(hosts, launcher, 4, *PYTEST, *TESTS, on=ON), within=110)


@pytest.mark.parametrize(
    "kind", ["pmix", *(pytest.param(k, marks=pytest.mark.slow) for k in ("none", "pmi2"))]
)
def test_under_srun(slurm: Slurm, kind: str) -> None:
    nodes = ["-N2", "--ntasks-per-node=2"]
    finished(srun(slurm, f"--mpi={kind}", *nodes, *PYTEST, *TESTS), within=110)
