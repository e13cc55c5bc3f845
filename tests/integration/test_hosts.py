"""Jobs whose ranks are on several hosts, as far as they know: who is where, and the operations that
go by way of hosts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PARALLEL = HERE.parent / "parallel"
BY_HOSTS = {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1", "HOROVOD_HIERARCHICAL_ALLGATHER": "1"}


def run(hosts: str, *command: str, **variables: str) -> str:
    """Runs a command on one rank for each name and returns what all of them printed."""
    launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(len(hosts.split(",")))]
    job = subprocess.run(
        [*launcher, sys.executable, str(HERE / "on_hosts.py"), hosts, sys.executable, *command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


NEIGHBOURS = """
import json
import horovod.numpy as hvd

hvd.init()
assert hvd.local_ranks()[hvd.local_rank()] == hvd.rank()
assert hvd.cross_ranks()[hvd.cross_rank()] == hvd.rank()
assert len(hvd.local_ranks()) == hvd.local_size()
assert len(hvd.cross_ranks()) == hvd.cross_size()
places = hvd.allgather_object((hvd.local_ranks(), hvd.cross_ranks()))
if hvd.rank() == 0:
    print("places", json.dumps([places, hvd.is_homogeneous()]))
"""


@pytest.mark.parametrize(
    ("hosts", "local", "cross", "even"),
    [
        ("a,a,b,b", [[0, 1]] * 2 + [[2, 3]] * 2, [[0, 2], [1, 3]] * 2, True),
        ("a,b,a,b", [[0, 2], [1, 3]] * 2, [[0, 1]] * 2 + [[2, 3]] * 2, True),
        ("a,a,a,b", [[0, 1, 2]] * 3 + [[3]], [[0, 3], [1], [2], [0, 3]], False),
        ("a,b,c", [[0], [1], [2]], [[0, 1, 2]] * 3, True),
    ],
)
def test_every_rank_knows_its_neighbours(
    hosts: str, local: list[list[int]], cross: list[list[int]], even: bool
) -> None:
    output = run(hosts, "-c", NEIGHBOURS)
    line = next(line for line in output.splitlines() if "places" in line)
    places, homogeneous = json.loads(line.split("places ", 1)[1])
    assert places == [list(place) for place in zip(local, cross)]
    assert homogeneous is even


ORDER = """
import numpy as np
import horovod.numpy as hvd

hvd.init()
value = np.float32([1e8, 1, -1e8, 1][hvd.rank()])
print("sum", hvd.allreduce(np.full(1000, value), op=hvd.Sum, name="x").max())
"""


@pytest.mark.parametrize(("hosts", "total"), [("a,a,b,b", "0.0"), ("a,b,a,b", "2.0")])
def test_what_shares_a_host_is_added_first(hosts: str, total: str) -> None:
    """In float32, 1e8 + 1 is 1e8: the result tells which ranks were added first."""
    assert run(hosts, "-c", ORDER, **BY_HOSTS).count(f"sum {total}") == 4


GO_BY_HOSTS = ["allreduce", "allgather", "grouped", "join"]
OTHERS = ["reducescatter", "broadcast", "alltoall"]


@pytest.mark.parametrize(
    ("hosts", "operations"), [("a,a,b,b", GO_BY_HOSTS + OTHERS), ("a,a,a,b", GO_BY_HOSTS)]
)
def test_every_operation_and_type_by_way_of_hosts(hosts: str, operations: list[str]) -> None:
    files = [str(PARALLEL / f"test_{name}.py") for name in operations]
    pytest_options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "numpy"]
    assert run(hosts, *pytest_options, *files, **BY_HOSTS).count(" passed") == 4
