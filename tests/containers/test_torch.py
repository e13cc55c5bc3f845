"""PyTorch over containers: too large for the image, so they use this machine's Python and packages.

That is a recipe of its own: a virtual environment on a share, mounted at the same path everywhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_hosts import PORT, Containers
from engine import TREE, Engine

OPTIONS = "--batch-size 16 --generated-images 3000 --data-dir /mnt/share"


def folders_of_python() -> tuple[Path, ...]:
    """Where this interpreter and its packages are; the system's own cannot be mounted elsewhere."""
    torch = pytest.importorskip("torch")
    if Path(sys.base_prefix) in (Path("/usr"), Path("/usr/local")):
        pytest.skip(f"this Python belongs to the system: {sys.base_prefix}")
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(torch.__file__).parents[1]}
    return tuple(path for path in found if not found & set(path.parents) and path != TREE)


@pytest.fixture
def hosts(engine: Engine, image: str, tmp_path: Path) -> Iterator[Containers]:
    with Containers(engine, image, tmp_path, folders_of_python()) as containers:
        yield containers


def test_mnist_in_two_containers(hosts: Containers) -> None:
    hosts.worker("node8")
    master = hosts.master("node7")
    job = f"python examples/pytorch/pytorch_mnist.py {OPTIONS}"
    done = master.run(
        f"PATH={sys.prefix}/bin:$PATH; horovodrun -np 4 -H node7:2,node8:2 -p {PORT} {job}",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    accuracies = re.findall(r"accuracy (\d+\.\d+)%", done.stdout)
    assert float(accuracies[-1]) > 60, done.stdout
