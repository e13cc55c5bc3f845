"""Fixtures for jobs that others start: four hosts with ssh between them, a Slurm on them, the
implementations of MPI, Apptainer. `make test` runs those that are not marked as slow."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Hosts made of namespaces, and the reader of pages whose commands are run.
sys.path[:0] = [str(HERE.parent / "hosts"), str(HERE.parent / "containers")]
# Jobs say `python` as users do, who have activated their environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

from apptainer import Apptainer, Unavailable, prepare  # noqa: E402
from cluster import Cluster, impossible  # noqa: E402
from host import Host  # noqa: E402
from launchers import LAUNCHERS, Launcher  # noqa: E402
from left_over import end_left_over  # noqa: E402
from same_host import SameHost  # noqa: E402
from slurm import Slurm, missing  # noqa: E402
from sshd import PORT  # noqa: E402

HOSTS = ("f1", "f2", "f3", "f4")
TOOLS = ("ip", "nsenter", "unshare", "ssh", "ssh-keygen", "/usr/sbin/sshd")

SSH = f"Host *\n  Port {PORT}\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: not part of `make test`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test with Apptainer waits for its image, on a new machine for minutes."""
    for item in items:
        if HERE in item.path.parents and "apptainer" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def hosts() -> Iterator[Cluster]:
    """`f1` to `f4` on one network."""
    if why := impossible():
        pytest.skip(why)
    if absent := [tool for tool in TOOLS if not shutil.which(tool)]:
        pytest.fail(f"not installed: {', '.join(absent)}; run scripts/hosts.sh packages")
    with Cluster(HOSTS) as cluster, tempfile.TemporaryDirectory(prefix="hvd-home-") as shared:
        for host in cluster:
            _furnish(host, shared)
        yield cluster


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails may leave its job behind; the next one must not find it."""
    yield
    if "hosts" in request.fixturenames:
        end_left_over(request.getfixturevalue("hosts"))


def _furnish(host: Host, shared: str) -> None:
    """As on a cluster: ssh asks nothing, a shell finds the programs, homes are on a shared disk."""
    home = os.path.expanduser("~root")
    host.path(f"{home}/.ssh/config").write_text(SSH)
    host.path(f"{home}/.bashrc").write_text(f"export PATH='{os.environ['PATH']}'\n")
    host.namespace.do("mkdir", "-p", f"{home}/.horovod")
    host.namespace.do("mount", "--bind", shared, f"{home}/.horovod")


@pytest.fixture
def free_port() -> int:
    """A port of the loopback at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def slurm(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """A Slurm on the hosts; where there can be none, on this machine under two names."""
    if os.geteuid() != 0:
        pytest.skip("starting a Slurm needs root")
    if absent := missing():
        pytest.fail(f"not installed: {', '.join(absent)}; run scripts/mpi.sh debian")
    plain = impossible() is not None
    nodes = [SameHost(name) for name in HOSTS[:2]] if plain else request.getfixturevalue("hosts")
    with tempfile.TemporaryDirectory(prefix="hvd-slurm-") as folder:
        os.chmod(folder, 0o755)
        with Slurm(list(nodes), Path(folder)) as slurm:
            yield slurm


def _parameter(launcher: Launcher) -> object:
    return pytest.param(
        launcher, id=launcher.name, marks=() if launcher.small else pytest.mark.slow
    )


@pytest.fixture(params=[_parameter(launcher) for launcher in LAUNCHERS.values()])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    """Each `mpirun` in turn. `parametrize("launcher", FAMILIES, indirect=True)` takes fewer."""
    chosen: Launcher = request.param
    if how := chosen.missing():
        if not chosen.wheel:
            pytest.fail(f"{chosen.program} is not installed; run {how}")
        chosen.install()
    return chosen


@pytest.fixture(scope="session")
def apptainer(hosts: Cluster) -> Apptainer:
    """Apptainer on the PATH of every host."""
    try:
        apptainer = prepare()
    except Unavailable as reason:
        pytest.skip(f"no Apptainer here: {reason}")
    os.environ["PATH"] = f"{apptainer.programs}{os.pathsep}{os.environ['PATH']}"
    for host in hosts:
        path = host.path(os.path.expanduser("~root/.bashrc"))
        path.write_text(f"export PATH='{os.environ['PATH']}'\n")
    return apptainer
