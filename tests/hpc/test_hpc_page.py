"""The pages hpc.md, batch-jobs.md and other-launchers.md as they stand, on four hosts with a Slurm.

What is not word for word: `mpirun` is Debian's Open MPI, and `apptainer build` takes the image that
the other tests have built from the same definition file.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from apptainer import Apptainer
from cluster import Cluster
from launchers import LAUNCHERS
from page import Block, sections
from slurm import Slurm

TREE = Path(__file__).parents[2]
PAGES = ("hpc.md", "batch-jobs.md", "other-launchers.md")
SECTIONS = {
    f"{page}: {title}": blocks
    for page in PAGES
    for title, blocks in sections((TREE / "docs/guide" / page).read_text()).items()
}
PROVED = [title for title, blocks in SECTIONS.items() if any("machine" in b.words for b in blocks)]


class Reader:
    """A user at `f1` who types what the page says, in a folder with the examples."""

    def __init__(self, hosts: Cluster, slurm: Slurm, apptainer: Apptainer, folder: Path) -> None:
        self.hosts = hosts
        self.slurm = slurm
        self.folder = folder
        self.programs = f"{folder}/bin:{apptainer.programs}"
        shutil.copytree(TREE / "examples/numpy", folder / "examples/numpy")
        shutil.copytree(TREE / "examples/data", folder / "examples/data")
        programs = folder / "bin"
        programs.mkdir()
        real = apptainer.programs / "apptainer"
        self._stand_in("mpirun", f'exec {LAUNCHERS["openmpi-4"].program} "$@"')
        link = f'test "$*" = "build horovod.sif docker/horovod.def" && ln -s {apptainer.image} $2'
        self._stand_in("apptainer", f'if [ "$1" = build ]; then {link}; else exec {real} "$@"; fi')

    def _stand_in(self, name: str, script: str) -> None:
        program = self.folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def type(self, block: Block) -> subprocess.CompletedProcess[str]:
        environment = {**self.slurm.environment, **LAUNCHERS["openmpi-4"].environment}
        environment["PATH"] = f"{self.programs}:{environment['PATH']}"
        command = ["bash", "-e", "-o", "pipefail", "-c", block.commands]
        host = self.hosts[block.words["machine"]]
        return host.run(command, env=environment, cwd=str(self.folder), timeout=100)


@pytest.fixture
def reader(hosts: Cluster, slurm: Slurm, apptainer: Apptainer, tmp_path: Path) -> Reader:
    return Reader(hosts, slurm, apptainer, tmp_path)


@pytest.mark.parametrize("title", PROVED)
def test_does_what_it_says(reader: Reader, title: str) -> None:
    for block in SECTIONS[title]:
        if package := block.words.get("needs"):
            pytest.importorskip(package)
        done = reader.type(block)
        assert done.returncode == 0, f"{block.commands}{done.stdout}{done.stderr}"
        missing = block.missing(done.stdout)
        assert not missing, f"{block.commands}printed no {missing}: {done.stdout}"


def test_says_where_every_block_is_typed_or_that_it_was_not_run() -> None:
    words = [set(block.words) for blocks in SECTIONS.values() for block in blocks]
    assert len(words) > 8
    assert all(("machine" in word) != ("unproved" in word) for word in words)
