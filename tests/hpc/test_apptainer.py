"""Ranks in Apptainer containers that `mpirun` or `srun` of the hosts start. The image has another
Open MPI than the hosts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from apptainer import Apptainer
from cluster import Cluster
from launchers import LAUNCHERS, Launcher
from ranks import PROGRAM, place, reports
from slurm import Slurm
from start import finished, mpirun, srun

TREE = Path(__file__).parents[2]
TRAIN = "examples/numpy/digits.py --epochs 3 --every-rank"
KERAS = "examples/keras/keras_mnist_advanced.py --epochs 2 --generated-images 2000 --verbose 0"
TENSORFLOW = TREE / ".venv-tensorflow/bin/python"
TWO_HOSTS = {"f1": 2, "f2": 2}
LOSS = re.compile(r"rank (\d+) of (\d+) on (\w+): test loss (\S+)")
KERAS_LOSS = re.compile(r"test loss (\S+)")


def recipe(hosts: Cluster, slots: int, *inside: str, seconds: float) -> str:
    """What `mpirun` prints with ranks in containers of all four hosts."""
    where = ",".join(f"{host.name}:{slots}" for host in hosts)
    launcher = LAUNCHERS["openmpi-4"]
    places = ["-np", str(4 * slots), "-H", where, "-x", "NCCL_DEBUG=INFO"]
    command = [launcher.program, *places, *inside]
    done = hosts["f1"].run(command, env=launcher.environment, timeout=seconds, cwd=str(TREE))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("slots", [1, 2])
def test_recipe_on_four_hosts(hosts: Cluster, apptainer: Apptainer, slots: int) -> None:
    """The recipe of clusters: every rank ends with the same model, so with the same loss."""
    inside = apptainer.exec("python", *TRAIN.split())
    printed = recipe(hosts, slots, *inside, seconds=90)
    found = LOSS.findall(printed)
    assert sorted(int(rank) for rank, *_ in found) == list(range(4 * slots)), printed
    assert {host for _, _, host, _ in found} == {host.name for host in hosts}
    assert len({loss for *_, loss in found}) == 1, printed


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("slots", [1, 2])
def test_recipe_with_keras(
    hosts: Cluster, apptainer: Apptainer, slots: int, tmp_path: Path
) -> None:
    """The same with TensorFlow, which is this tree's: as a package it would double the image."""
    if not TENSORFLOW.exists():
        pytest.skip(f"{TENSORFLOW} is not there; `make test` installs it")
    python = TENSORFLOW.resolve().parents[1]
    binds = f"{python},{TREE},{tmp_path}"
    options = ("--bind", binds, "--env", f"LD_LIBRARY_PATH={python}/lib")
    train = (*KERAS.split(), "--checkpoint-dir", str(tmp_path))
    inside = apptainer.exec(str(TENSORFLOW), *train, options=options)
    losses = KERAS_LOSS.findall(recipe(hosts, slots, *inside, seconds=900))
    assert len(losses) == 4 * slots and len(set(losses)) == 1, losses


def test_every_mpirun(hosts: Cluster, apptainer: Apptainer, launcher: Launcher) -> None:
    inside = apptainer.exec("python", PROGRAM)
    ended = finished(mpirun(hosts, launcher, 4, *inside, on=TWO_HOSTS))
    assert reports(ended.output) == place(TWO_HOSTS)


@pytest.mark.parametrize("kind", ["none", "pmi2", "pmix"])
def test_srun(slurm: Slurm, apptainer: Apptainer, kind: str) -> None:
    nodes = ["-N2", "--ntasks-per-node=2"]
    ended = finished(srun(slurm, f"--mpi={kind}", *nodes, *apptainer.exec("python", PROGRAM)))
    assert reports(ended.output) == place(TWO_HOSTS)


def test_image_without_pmix(hosts: Cluster, apptainer: Apptainer) -> None:
    """The ranks meet in the home directory instead, which Apptainer mounts."""
    libraries = (apptainer.image / "usr/lib").rglob("libpmix.so.2")
    hidden = [f"/dev/null:/{path.relative_to(apptainer.image)}" for path in libraries]
    assert hidden
    options = tuple(word for path in hidden for word in ("--bind", path))
    inside = apptainer.exec("python", PROGRAM, options=options)
    ended = finished(mpirun(hosts, LAUNCHERS["openmpi-4"], 4, *inside, on=TWO_HOSTS))
    assert reports(ended.output) == place(TWO_HOSTS)


@pytest.mark.slow
def test_image_in_one_file(hosts: Cluster, apptainer: Apptainer) -> None:
    inside = apptainer.as_one_file().exec("python", PROGRAM)
    ended = finished(mpirun(hosts, LAUNCHERS["openmpi-4"], 4, *inside, on=TWO_HOSTS))
    assert reports(ended.output) == place(TWO_HOSTS)


@pytest.mark.parametrize("name", ["openmpi-4", "mpich-4"])
def test_cleanenv_is_refused(hosts: Cluster, apptainer: Apptainer, name: str) -> None:
    inside = apptainer.exec("python", PROGRAM, options=("--cleanenv",))
    ended = mpirun(hosts, LAUNCHERS[name], 2, *inside).finish()
    assert ended.code != 0 and reports(ended.output) == [], ended.output
    assert "this process runs below `mpi" in ended.words(), ended.errors
    assert "--cleanenv" in ended.words(), ended.errors


def test_cleanenv_is_refused_under_srun(slurm: Slurm, apptainer: Apptainer) -> None:
    inside = apptainer.exec("python", PROGRAM, options=("--cleanenv",))
    ended = srun(slurm, "-n2", "-N1", *inside).finish()
    assert ended.code != 0 and reports(ended.output) == [], ended.output
    assert "this process runs below `srun`" in ended.words(), ended.errors
