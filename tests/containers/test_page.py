"""docs/guide/docker.md, word for word, on two machines with an engine each.

What is not word for word: the folders /opt/horovod and /mnt/share are scratch folders; `docker run
-it` becomes `-dt`, and what is typed into its shell is run there; ssh and scp to the other machine,
and the `make` that would build the wheel anew, are the stand-ins below.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import TREE, Engine
from page import Block, sections

SECTIONS = sections((TREE / "docs/guide/docker.md").read_text())
STAND_INS = {
    "make": 'test "$*" = image && exec scripts/image.sh',
    "ssh": 'test "$1" = node8; shift; DOCKER_HOST=$NODE8 exec "$@"',
    "scp": 'target=${3#node8:}; cp -a "$2" "${target/node7/node8}"',
}


class Reader:
    """A user at the machines who types what the page says."""

    def __init__(self, machines: dict[str, Engine], folder: Path) -> None:
        self.machines = machines
        self.folder = folder
        self.at = "node7"
        for name in machines:
            (folder / name / "opt/horovod").mkdir(parents=True)
        (folder / "share").mkdir()
        (folder / "bin").mkdir()
        for name, script in STAND_INS.items():
            stand_in = folder / "bin" / name
            stand_in.write_text(f"#!/bin/bash\nset -e\n{script}\n")
            stand_in.chmod(0o755)

    def read(self, title: str) -> None:
        for block in SECTIONS[title]:
            done = self.type(block)
            assert done.returncode == 0, f"{block.commands}{done.stdout}{done.stderr}"
            missing = block.missing(done.stdout)
            assert not missing, f"{block.commands}printed no {missing}: {done.stdout}"

    def type(self, block: Block) -> subprocess.CompletedProcess[str]:
        container = block.words.get("container")
        self.at = block.words.get("machine", "node7")
        command = ["bash", "-e", "-o", "pipefail", "-c", self.here(block.commands)]
        if container:
            command = ["docker", "exec", container, *command]
        return subprocess.run(
            command,
            cwd=TREE,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def environment(self) -> dict[str, str]:
        machine = self.machines[self.at].environment
        path = f"{self.folder}/bin:{machine['PATH']}"
        other = self.machines["node8"].environment["DOCKER_HOST"]
        return {**machine, "PATH": path, "NODE8": other, "TAG": "horovod"}

    def here(self, commands: str) -> str:
        commands = commands.replace("/opt/horovod", f"{self.folder}/{self.at}/opt/horovod")
        commands = commands.replace("/mnt/share", f"{self.folder}/share")
        return commands.replace("docker run -it", "docker run -dt")


@pytest.fixture
def reader(machines: dict[str, Engine], tmp_path: Path) -> Iterator[Reader]:
    yield Reader(machines, tmp_path)
    for machine in machines.values():
        left = machine.listed("ps", "--all", "--quiet")
        if left:
            machine.run("rm", "--force", *left)


def test_says_where_every_block_is_typed() -> None:
    places = [set(block.words) & {"machine", "container"} for s in SECTIONS.values() for block in s]
    assert len(places) > 20
    assert all(len(place) == 1 for place in places)


def test_does_what_it_says_from_top_to_bottom(reader: Reader) -> None:
    for title in SECTIONS:
        reader.read(title)
        for name, machine in reader.machines.items():
            left = machine.listed("ps", "--all", "--format", "{{.Names}}")
            assert not left, f"the section `{title}` leaves containers on {name}: {left}"


def test_notices_missing_output() -> None:
    block = Block("true", {}, ["[0]<stdout>:epoch 1 ...", "node8"])
    assert block.missing("[0]<stdout>:epoch 1 loss 2\nnode8\n") == []
    assert block.missing("[0]<stdout>:epoch 2\nnode88\n") == block.expected


def test_page_is_linked() -> None:
    for index, link in (
        ("docs/README.md", "(guide/docker.md)"),
        ("README.md", "(docs/guide/docker.md)"),
    ):
        assert link in (TREE / index).read_text(), f"{index} does not lead to docs/guide/docker.md"
    assert os.access(TREE / "scripts/image.sh", os.X_OK)
