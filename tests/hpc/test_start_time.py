"""How much `hvd.init()` adds to the start of a job under `mpirun`: measured and printed.

No time is asserted: the machine may have other things to do.
"""

from __future__ import annotations

import statistics
import time

import pytest
from cluster import Cluster
from launchers import FAMILIES, Launcher
from ranks import PYTHON
from start import finished, mpirun

ROUNDS = 7
RANKS = 2
PROGRAMS = {
    "without init": "import horovod.numpy as hvd",
    "with init": "import horovod.numpy as hvd; hvd.init(); hvd.shutdown()",
}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", FAMILIES, indirect=True, ids=str)
def test_init_under_mpirun(
    hosts: Cluster, launcher: Launcher, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    # In turn, so that a slow minute of the machine hits both.
    for _ in range(ROUNDS):
        for name, program in PROGRAMS.items():
            began = time.monotonic()
            finished(mpirun(hosts, launcher, RANKS, PYTHON, "-c", program))
            seconds[name].append(time.monotonic() - began)
    without, with_init = (statistics.median(seconds[name]) for name in PROGRAMS)
    added = 1000 * (with_init - without)
    with capsys.disabled():
        print(f"\n{launcher}, {RANKS} ranks: hvd.init() adds {added:.0f} ms to {without:.2f} s")
