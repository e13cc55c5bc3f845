"""Sockeye 2, as it is on the public index, trains on two ranks: the recipe of the page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import sockeye_recipe

pytest.importorskip("mxnet")
pytest.importorskip("sockeye")
pytest.importorskip("mpi4py")

LAUNCHERS = {
    "horovodrun": "horovodrun -np 2",
    "mpirun": "mpirun -np 2 --oversubscribe",
    "horovodrun --mpi": "horovodrun --mpi -np 2",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sockeye")
    sockeye_recipe.prepare(folder)
    return folder


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_sockeye_trains(prepared: Path, launcher: str) -> None:
    if "mpi" in launcher and not shutil.which("mpirun"):
        pytest.skip("not installed: `apt-get install openmpi-bin`")
    shutil.rmtree(prepared / "model", ignore_errors=True)
    train = sockeye_recipe.steps()[-1].replace("horovodrun -np 2", LAUNCHERS[launcher])
    done = sockeye_recipe.run(train, prepared)
    assert done.returncode == 0, done.stdout + done.stderr
    sockeye_recipe.check_model(prepared / "model")
    if launcher == "horovodrun":
        saved = re.findall(r"^\[1\]<stderr>:.*Saved params to \"(.*)\"", done.stderr, re.MULTILINE)
        assert saved and all("secondary_workers/1" in path for path in saved)


def test_the_recipe_of_the_page_is_whole() -> None:
    assert len(sockeye_recipe.steps()) == 3
