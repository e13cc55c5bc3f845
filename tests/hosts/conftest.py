"""Fixtures for tests on several hosts; see `cluster.py`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster, impossible

# Jobs say `python` as users do, who have activated their environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

TOOLS = ("ip", "tc", "nft", "nsenter", "unshare", "ssh", "ssh-keygen", "/usr/sbin/sshd")


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips where hosts cannot be made; fails where a package is missing."""
    if why := impossible():
        pytest.skip(why)
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        pytest.fail(f"not installed: {', '.join(missing)}; run scripts/hosts.sh packages")


@pytest.fixture(scope="module")
def cluster(namespaces: None) -> Iterator[Cluster]:
    """`hosta` and `hostb` on one network, for all tests of a module."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def new_cluster(namespaces: None) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters (arguments as `Cluster`) that are removed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(Cluster(*args, **kwargs))
