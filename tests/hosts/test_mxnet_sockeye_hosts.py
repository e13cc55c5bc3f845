"""Sockeye 2 trains on two hosts: by `horovodrun` with ssh, and by `mpirun`.

Runs where Sockeye is installed: with the Python of `.venv-mxnet`, see scripts/test_matrix.sh.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import assert_nothing_left, run

import sockeye_recipe

pytest.importorskip("mxnet")
pytest.importorskip("sockeye")
pytest.importorskip("mpi4py")

ONE_EACH = ("-np", "2", "-H", "hosta:1,hostb:1")


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


@pytest.mark.parametrize("options", [(), ("--mpi",)], ids=["ssh", "mpirun"])
def test_sockeye_trains(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    if options and not shutil.which("mpirun"):
        pytest.skip("not installed: `apt-get install openmpi-bin`")
    sockeye_recipe.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    _, _, _, *program = shlex.split(sockeye_recipe.steps()[-1])
    ended = run(cluster["hosta"], *options, *ONE_EACH, *program, within=100)
    assert ended.code == 0, ended
    sockeye_recipe.check_model(tmp_path / "model")
