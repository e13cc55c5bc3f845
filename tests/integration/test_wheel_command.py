"""`horovodrun wheel`: the installation of one environment, written out, works in another."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DIST = Path(__file__).parents[2] / "dist"

# Two environments are made, each with packages from an index.
pytestmark = pytest.mark.timeout(300)

TRAIN = """
import numpy as np
import horovod.numpy as hvd

hvd.init()
total = hvd.allreduce(np.array([hvd.rank() + 1.0]), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()}: {total[0]:.0f}")
"""


class Environment:
    """A virtual environment with Horovod and NumPy in it."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.home = home
        subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=120)
        install = [home / "bin/python", "-m", "pip", "install", "--quiet", wheel, "numpy"]
        subprocess.run(install, check=True, timeout=300)
        (self.packages,) = home.glob("lib/python*/site-packages")

    def run(self, *words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        # No `pip`, no network, nothing but the environment's own programs.
        command = [self.home / "bin" / str(words[0]), *map(str, words[1:])]
        variables = {"PATH": str(self.home / "bin"), "HOME": str(self.home)}
        return subprocess.run(
            command, env=variables, cwd=cwd, capture_output=True, text=True, timeout=120
        )

    def write(self, directory: Path) -> Path:
        done = self.run("horovodrun", "wheel", directory)
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.rstrip("\n"))


@pytest.fixture(scope="module")
def built() -> Path:
    wheels = list(DIST.glob("horovod-*.whl"))
    assert len(wheels) == 1, f"expected one wheel in {DIST}, found {wheels}; run `make wheel`"
    return wheels[0]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("first") / "venv", built)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, first: Environment) -> Path:
    return first.write(tmp_path_factory.mktemp("written") / "new directory")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory, written: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("second") / "venv", written)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_is_the_wheel_that_was_installed(built: Path, written: Path) -> None:
    assert written.name == built.name
    ours, theirs = contents(written), contents(built)
    record = next(name for name in theirs if name.endswith(".dist-info/RECORD"))
    assert sorted(ours.pop(record).splitlines()) == sorted(theirs.pop(record).splitlines())
    assert ours == theirs


def test_its_record_verifies(written: Path) -> None:
    files = contents(written)
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(files[record].decode().splitlines()))
    assert [name for name, _, _ in rows] == list(files)
    for name, recorded, size in rows:
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest())
            assert recorded == "sha256=" + digest.rstrip(b"=").decode()
            assert int(size) == len(files[name])


def test_equal_installations_give_equal_bytes(
    written: Path, first: Environment, second: Environment, tmp_path: Path
) -> None:
    expected = written.read_bytes()
    assert first.write(tmp_path / "again").read_bytes() == expected
    assert second.write(tmp_path / "from the second").read_bytes() == expected
    piped = subprocess.run(
        [second.home / "bin/horovodrun", "wheel", "-"], check=True, capture_output=True, timeout=60
    )
    assert piped.stdout == expected and piped.stderr == b""


def test_the_second_environment_is_sound(second: Environment) -> None:
    check = second.run("python", "-m", "pip", "check")
    assert check.returncode == 0, check.stdout
    build = second.run("horovodrun", "--check-build")
    assert build.returncode == 0 and "[X] Gloo" in build.stdout


def test_the_second_environment_trains(second: Environment) -> None:
    job = second.run("horovodrun", "-np", "2", "python", "-c", TRAIN)
    assert job.returncode == 0, job.stderr
    assert sorted(job.stdout.splitlines()) == [
        "[0]<stdout>:rank 0 of 2: 3",
        "[1]<stdout>:rank 1 of 2: 3",
    ]


def test_it_says_how_to_install_it_elsewhere(first: Environment, tmp_path: Path) -> None:
    """The words of the line are those of the shell, also for a directory with a space."""
    done = first.run("horovodrun", "wheel", "my dist", cwd=tmp_path)
    (wheel,) = (tmp_path / "my dist").iterdir()
    assert done.stdout == f"my dist/{wheel.name}\n"
    words = shlex.split(done.stderr.partition("another host: ")[2])
    assert words[:3] == ["scp", f"my dist/{wheel.name}", "HOST:"]
    assert words[3:] == ["&&", "ssh", "HOST", *f"python3 -m pip install ./{wheel.name}".split()]


@pytest.fixture
def changed(first: Environment) -> Iterator[Path]:
    """A file of the installation, put back afterwards."""
    file = first.packages / "horovod/common/basics.py"
    before = file.read_bytes()
    yield file
    file.write_bytes(before)


def refused(environment: Environment, directory: Path) -> str:
    done = environment.run("horovodrun", "wheel", directory)
    assert done.returncode == 1 and done.stdout == ""
    assert not directory.exists() or list(directory.iterdir()) == []
    return done.stderr


def test_a_changed_file_is_refused(first: Environment, changed: Path, tmp_path: Path) -> None:
    changed.write_text(changed.read_text() + "# mine\n")
    words = refused(first, tmp_path / "out")
    assert f"`{changed}` was changed since it was installed; install Horovod again" in words


def test_a_missing_file_is_refused(first: Environment, changed: Path, tmp_path: Path) -> None:
    changed.unlink()
    assert f"cannot read `{changed}`: " in refused(first, tmp_path / "out")


def test_a_development_install_is_refused(first: Environment, tmp_path: Path) -> None:
    """As `maturin develop` makes it: the files of a checkout, found by way of a `.pth`."""
    checkout = tmp_path / "checkout"
    shutil.copytree(first.packages / "horovod", checkout / "horovod")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from horovod.runner import launch;"
    run = ["python", "-c", code + "launch.run_commandline()", checkout, "wheel", tmp_path / "out"]
    done = first.run(*run)
    assert done.returncode == 1
    assert f"`{checkout}/horovod` is a development install" in done.stderr
    assert "`make wheel` makes a wheel" in done.stderr


def test_a_directory_that_cannot_be_made_is_named(first: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = first.run("horovodrun", "wheel", tmp_path / "file" / "out")
    assert done.returncode == 1
    assert f"cannot write into `{tmp_path}/file/out`: " in done.stderr


def test_misuse_is_explained(first: Environment) -> None:
    done = first.run("horovodrun", "wheel")
    assert done.returncode == 2 and "DIRECTORY" in done.stderr
    assert os.fsdecode(first.home) not in done.stderr
