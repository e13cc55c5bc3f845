"""Containers as hosts: a network, a folder of keys, workers that run sshd, a master that launches.

    with Containers(engine, image, folder) as containers:
        containers.worker("node8")
        master = containers.master("node7")
        master.run("ssh -p 12345 node8 hostname")

Inside, a container has the host name it was asked for; on the engine its name carries a prefix, so
that two test runs, or a user's own containers, are never in each other's way.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType

from engine import TREE, Engine

PORT = 12345


class Container:
    """One container that runs."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name

    def run(self, command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs a line of shell inside, as a user would type it there."""
        return self.engine.run(
            "exec", self.name, "bash", "-c", command, timeout=timeout, check=False
        )

    def address(self) -> str:
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return self.engine.run("inspect", "--format", form, self.name).stdout.strip()


class Containers:
    """A network of containers; leaving it removes all of them."""

    def __init__(
        self, engine: Engine, image: str, folder: Path, mounts: tuple[Path, ...] = ()
    ) -> None:
        self.engine = engine
        self.image = image
        # Folders of this machine that every container sees at the same path.
        self.mounts = (TREE, *mounts)
        self.keys = folder / "ssh"
        self.share = folder / "share"
        self.prefix = f"horovod-test-{os.getpid()}"

    def __enter__(self) -> Containers:
        self.share.mkdir(parents=True, exist_ok=True)
        make_keys(self.keys)
        self.engine.run("network", "create", self.prefix)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        remove(self.engine, self.prefix)

    def start(
        self,
        host: str,
        *command: str,
        options: tuple[str, ...] = (),
        more: tuple[str, ...] = (),
    ) -> Container:
        """Starts a container with this host name; `options` replace those of the network, `more`
        are added to them."""
        name = f"{self.prefix}-{host}"
        network = options or (
            *("--network", self.prefix, "--network-alias", host),
            *("--hostname", host),
        )
        self.engine.run(
            *("run", "--detach", "--name", name, *network, *more),
            *("--volume", f"{self.keys}:/root/.ssh:ro"),
            *(f"--volume={path}:{path}:ro" for path in self.mounts),
            *("--workdir", str(TREE)),
            *("--volume", f"{self.share}:/mnt/share"),
            *(self.image, *command),
        )
        return Container(self.engine, name)

    def worker(
        self,
        host: str,
        port: int = PORT,
        options: tuple[str, ...] = (),
        more: tuple[str, ...] = (),
    ) -> Container:
        server = ("/usr/sbin/sshd", "-p", str(port), "-D", "-e")
        return self.start(host, *server, options=options, more=more)

    def master(
        self, host: str, options: tuple[str, ...] = (), more: tuple[str, ...] = ()
    ) -> Container:
        return self.start(host, "sleep", "infinity", options=options, more=more)


def make_keys(folder: Path) -> None:
    """A key pair that lets every container of the folder into every other."""
    folder.mkdir(mode=0o700, parents=True)
    key = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "authorized_keys").write_text((folder / "id_ed25519.pub").read_text())


def remove(engine: Engine, prefix: str) -> None:
    """Removes the containers and networks whose name begins with the prefix."""
    mine = ("--filter", f"name=^/?{prefix}", "--format", "{{.ID}}")
    containers = engine.listed("ps", "--all", *mine)
    if containers:
        engine.run("rm", "--force", "--volumes", *containers)
    networks = engine.listed("network", "ls", "--filter", f"name=^{prefix}", "--format", "{{.ID}}")
    if networks:
        engine.run("network", "rm", *networks)
