"""The Docker engine of these tests: the one that runs, else one of their own, else why not.

Everything here is bounded in time. What the tests make on an engine carries their prefix and is
removed; an engine of their own ends with them, however they end (see scripts/engine.sh).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).parents[2]
# The status of scripts that did not fail but cannot work on this machine.
CANNOT = 3


class Unavailable(Exception):
    """No containers on this machine, and why."""


class Engine:
    """An engine that answers, and the environment in which `docker` speaks to it."""

    def __init__(self, environment: dict[str, str], process: int | None = None) -> None:
        self.environment = environment
        # Of an engine of our own: a process inside its namespaces.
        self.process = process

    def run(
        self, *arguments: str, timeout: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs `docker` with these arguments; a failure shows what it said."""
        done = subprocess.run(
            ["docker", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"docker {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done

    def listed(self, *arguments: str) -> list[str]:
        return self.run(*arguments).stdout.split()


@contextmanager
def running() -> Iterator[Engine]:
    """The engine that runs on this machine, or one for the duration."""
    if shutil.which("docker") and answers(dict(os.environ)):
        yield Engine(dict(os.environ))
        return
    with own("node7") as engine:
        yield engine


def answers(environment: dict[str, str]) -> bool:
    try:
        return (
            subprocess.run(
                ["docker", "version"], env=environment, capture_output=True, timeout=20
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def own(hostname: str) -> Iterator[Engine]:
    """Starts an engine on a machine of this name; it lives while its standard input is open."""
    process = subprocess.Popen(
        [TREE / "scripts/engine.sh", hostname],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdin and process.stderr
    try:
        # The script gives up by itself in time, and its output ends with it.
        address, _, number = process.stdout.readline().partition(" ")
        if not address:
            raise Unavailable(process.stderr.read().strip())
        yield Engine({**os.environ, "DOCKER_HOST": address}, int(number))
    finally:
        process.stdin.close()
        process.wait(timeout=60)


def build_image(engine: Engine, tag: str) -> None:
    """What `make image` does, from the wheel that is in dist/."""
    done = subprocess.run(
        [TREE / "scripts/image.sh"],
        env={**engine.environment, "TAG": tag},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.returncode == CANNOT:
        raise Unavailable(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def expect_local(engine: Engine, tag: str) -> None:
    """An engine of another machine answers too, but mounts the folders of that machine."""
    seen = engine.run(
        *("run", "--rm", "--volume", f"{TREE}:{TREE}:ro", tag, "test", "-e", str(Path(__file__))),
        check=False,
    )
    if seen.returncode != 0:
        raise Unavailable(f"the running Docker engine does not see {TREE}: {seen.stderr}")


def copy_image(source: Engine, tag: str, target: Engine, name: str) -> None:
    """Gives the target the source's image under another name."""
    if source is not target:
        pipe = f"docker save {tag} | docker --host {target.environment['DOCKER_HOST']} load"
        subprocess.run(["bash", "-c", pipe], env=source.environment, check=True, timeout=120)
    target.run("tag", tag, name)


def lay_cable(machines: dict[str, Engine]) -> None:
    """Connects the networks of two own engines; the machines are 10.77.0.7 and 10.77.0.8."""
    addresses = {name: f"10.77.0.{name.removeprefix('node')}" for name in machines}
    (here, first), (there, second) = machines.items()
    ends = f"cable0 netns {first.process} type veth peer name cable0 netns {second.process}"
    subprocess.run(["ip", "link", "add", *ends.split()], check=True)
    words = "".join(f"{address} {name}\\n" for name, address in addresses.items())
    for name, machine in ((here, first), (there, second)):
        script = f"""
            ip address add {addresses[name]}/24 dev cable0
            ip link set cable0 up
            printf '127.0.0.1 localhost\\n{words}' > /etc/hosts
        """
        inside = ["nsenter", "--target", str(machine.process), "--net", "--mount"]
        subprocess.run([*inside, "bash", "-ec", script], check=True)
