"""`horovod.run()` over hosts: results by rank, and what went wrong elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from cluster import Cluster
from host import Finished
from jobs import TIMEOUT, assert_nothing_left

WHERE = """
import horovod

def where(factor, offset=0):
    import os, horovod.numpy as hvd
    hvd.init()
    total = hvd.allreduce(float(hvd.rank()), op=hvd.Sum)
    return os.uname().nodename, factor * hvd.rank() + offset, float(total)

hosts = "hosta:1,hostb:2"
print(horovod.run(where, (10,), {"offset": 1}, num_proc=3, hosts=hosts, ssh_port=12345))
"""

FAILS = """
import horovod

def fails():
    import os
    if os.environ["HOROVOD_RANK"] == "1":
        raise KeyError("the reason on " + os.uname().nodename)
    import time
    time.sleep(60)

try:
    horovod.run(fails, num_proc=2, hosts="hosta:1,hostb:1", ssh_port=12345)
except RuntimeError as error:
    print("caught:", error)
"""


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


def call(cluster: Cluster, code: str) -> Finished:
    return cluster["hosta"].run([sys.executable, "-c", code], timeout=TIMEOUT)


def test_results_by_rank(cluster: Cluster) -> None:
    done = call(cluster, WHERE)
    assert done.returncode == 0, done
    assert done.stdout == "[('hosta', 1, 3.0), ('hostb', 11, 3.0), ('hostb', 21, 3.0)]\n"


def test_an_exception_elsewhere_comes_with_its_traceback(cluster: Cluster) -> None:
    done = call(cluster, FAILS)
    assert done.returncode == 0, done
    assert done.stdout.startswith("caught: ")
    assert "rank 1 on host hostb failed first" in done.stdout
    assert "in fails" in done.stdout
    assert "KeyError: 'the reason on hostb'" in done.stdout
    assert "Traceback" not in done.stderr
