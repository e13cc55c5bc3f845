"""The wheel as a user gets it: a fresh environment, NumPy, and no compiler anywhere on the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DIST = Path(__file__).parents[2] / "dist"

TRAIN = """
import numpy as np
import horovod.numpy as hvd

hvd.init()
total = hvd.allreduce(np.array([hvd.rank() + 1.0]), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()}: {total[0]:.0f}")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a fresh virtual environment into which the wheel was installed."""
    wheels = list(DIST.glob("horovod-*.whl"))
    assert len(wheels) == 1, f"expected one wheel in {DIST}, found {wheels}; run `make wheel`"
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    variables = {"PATH": str(home / "bin"), "HOME": str(home)}
    for compiler in ("cc", "gcc", "c++", "g++", "clang", "rustc", "cargo", "mpicc", "cmake"):
        assert shutil.which(compiler, path=variables["PATH"]) is None
    # How the machine reaches its package index is the machine's business.
    variables |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    install = [home / "bin/python", "-m", "pip", "install", "--quiet", wheels[0], "numpy"]
    subprocess.run(install, env={**os.environ, **variables}, check=True)
    return variables


def test_trains_on_two_processes(environment: dict[str, str]) -> None:
    command = ["horovodrun", "-np", "2", "python", "-c", TRAIN]
    horovodrun = shutil.which(command[0], path=environment["PATH"])
    assert horovodrun is not None
    job = subprocess.run(
        [horovodrun, *command[1:]], env=environment, capture_output=True, text=True, timeout=60
    )
    assert job.returncode == 0, job.stderr
    assert sorted(job.stdout.splitlines()) == [
        "[0]<stdout>:rank 0 of 2: 3",
        "[1]<stdout>:rank 1 of 2: 3",
    ]


def test_command_answers(environment: dict[str, str]) -> None:
    horovodrun = str(Path(environment["PATH"]) / "horovodrun")

    def ask(flag: str) -> str:
        answer = subprocess.run(
            [horovodrun, flag], env=environment, capture_output=True, text=True, timeout=60
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    assert ask("--version").strip() == "0.29.0"
    build = ask("--check-build")
    assert "[X] Gloo" in build
    assert "[ ] PyTorch" in build, "torch is not installed in this environment"


def test_is_one_file_for_all_pythons() -> None:
    (wheel,) = DIST.glob("horovod-*.whl")
    assert "-cp39-abi3-" in wheel.name


def test_is_typed(environment: dict[str, str]) -> None:
    package = next(Path(environment["PATH"]).parent.glob("lib/python*/site-packages/horovod"))
    assert (package / "py.typed").exists()
    assert (package / "_core.pyi").exists()
