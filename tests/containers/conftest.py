"""One engine and one image for all tests of this folder; containers for each that asks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from docker_hosts import Containers
from engine import (
    Engine,
    Unavailable,
    build_image,
    copy_image,
    expect_local,
    lay_cable,
    own,
    running,
)

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for the engine and the image, on a new machine for minutes."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        with running() as engine:
            yield engine
    except Unavailable as reason:
        pytest.skip(f"no containers here: {reason}")


@pytest.fixture(scope="session")
def image(engine: Engine) -> Iterator[str]:
    """The image of docker/Dockerfile, under a name that is not a user's."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("no containers here: ssh-keygen is not installed")
    tag = f"horovod-test:{os.getpid()}"
    try:
        build_image(engine, tag)
        expect_local(engine, tag)
    except Unavailable as reason:
        pytest.skip(f"no containers here: {reason}")
    yield tag
    engine.run("rmi", "--force", tag, timeout=120)


@pytest.fixture
def containers(engine: Engine, image: str, tmp_path: Path) -> Iterator[Containers]:
    with Containers(engine, image, tmp_path) as containers:
        yield containers


@pytest.fixture(scope="session")
def machines(engine: Engine, image: str) -> Iterator[dict[str, Engine]]:
    """Two machines with an engine each, a cable between them, and the image `horovod` on one."""
    with ExitStack() as stack:
        try:
            first = engine if engine.process else stack.enter_context(own("node7"))
            machines = {"node7": first, "node8": stack.enter_context(own("node8"))}
        except Unavailable as reason:
            pytest.skip(f"no second machine: {reason}")
        lay_cable(machines)
        copy_image(engine, image, first, "horovod")
        yield machines
