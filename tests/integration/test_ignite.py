"""PyTorch-Ignite, as it is on the public index, finds and uses Horovod."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("ignite")

TRAINING = str(Path(__file__).with_name("ignite_training.py"))
LAUNCHERS = {
    "horovodrun": ["-m", "horovod.runner.launch", "-np", "2", sys.executable, TRAINING],
    "nproc_per_node": [TRAINING, "2"],
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ignite_trains(launcher: str) -> None:
    done = subprocess.run(
        [sys.executable, *LAUNCHERS[launcher]], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"ignite: rank {rank} of 2 over horovod" in done.stdout
