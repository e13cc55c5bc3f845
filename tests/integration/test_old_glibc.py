"""The wheel on a system whose glibc is older than that of the machine which built it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# How scripts say that this machine lacks what it takes.
CANNOT = 3

TRAIN = """
import platform

import numpy as np
import horovod.numpy as hvd

hvd.init()
total = hvd.allreduce(np.array([hvd.rank() + 1.0]), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()}: {total[0]:.0f}, {' '.join(platform.libc_ver())}")
"""

# As on a cluster without a network. The second installation is from the first one's own files.
LINE = """
python3 -m venv /first
/first/bin/pip install --quiet --no-index --find-links /given horovod numpy
/first/bin/horovodrun --check-build
/first/bin/horovodrun -np 2 /first/bin/python /given/train.py
/first/bin/horovodrun wheel /written
python3 -m venv /second
/second/bin/pip install --quiet --no-index --find-links /given /written/*.whl
/second/bin/horovodrun --version
"""


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """The wheel, what it depends on and NumPy for Python 3.9, and a script."""
    (wheel,) = (ROOT / "dist").glob("horovod-*.whl")
    shutil.copy(wheel, tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    kind = ["--only-binary=:all:", "--python-version=3.9", "--platform=manylinux2014_x86_64"]
    download = [sys.executable, "-m", "pip", "download", "--quiet", *kind, "--dest", tmp_path]
    subprocess.run([*download, "numpy", "cloudpickle>=2"], check=True, timeout=300)
    return tmp_path


@pytest.mark.timeout(900)
def test_trains_with_glibc_2_31(given: Path) -> None:
    command = [ROOT / "scripts/old_debian.sh", given, LINE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[X] Gloo" in done.stdout
    for rank in (0, 1):
        assert f"[{rank}]<stdout>:rank {rank} of 2: 3, glibc 2.31\n" in done.stdout
    assert done.stdout.endswith("\n0.29.0\n")
