"""A real Slurm on the hosts of a cluster: munged, slurmctld on the first host, slurmd on each.

    with Slurm(nodes, folder) as slurm:
        slurm.run("srun", "--mpi=pmix", "-n", "4", "hostname")

Everything it writes is below one folder that all hosts see. The daemons stay in the foreground, as
children of the caller; what they start ends with the hosts, or with `close` where the nodes are
this machine itself under several names (`same_host.py`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "scontrol", "sinfo", "scancel", "sbatch")
CPUS = 8
START_TIMEOUT = 30.0

# `TmpFS` is by node: the PMIx plugin makes a folder in it that nodes of one machine would share.
# `linuxproc` and `task/none` need no control groups.
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={controller}({address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=3
MailProg=/bin/true
"""


class Node(Protocol):
    """A host of `tests/hosts`, or a stand-in for one."""

    name: str

    @property
    def hostname(self) -> str: ...
    def address(self) -> str: ...
    def popen(self, command: Sequence[str], **options: object) -> subprocess.Popen[str]: ...
    def run(self, command: Sequence[str], **options: object) -> subprocess.CompletedProcess: ...


def missing() -> list[str]:
    """The programs of Slurm that are not installed."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return [program for program in PROGRAMS if not shutil.which(program, path=path)]


class Slurm:
    """A cluster that accepts jobs; `environment` is what its commands need."""

    def __init__(self, nodes: Sequence[Node], folder: Path) -> None:
        self.nodes = list(nodes)
        self.folder = folder
        self.environment = {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        }
        self._daemons: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Slurm:
        try:
            self._write()
            self._start(self.nodes[0], "munged", "--foreground", *self._munge())
            self._wait_for(lambda: (self.folder / "munge/socket").exists(), "munged")
            self._start(self.nodes[0], "slurmctld", "-D")
            for node in self.nodes:
                self._start(node, "slurmd", "-D", "-N", node.name)
            self._wait_for(self._idle, "slurmd on every node")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self, *command: str, timeout: float = 60, env: dict[str, str] | None = None, **options
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of Slurm on the first node to its end."""
        environment = {**self.environment, **(env or {})}
        return self.nodes[0].run(list(command), timeout=timeout, env=environment, **options)

    def popen(
        self, *command: str, env: dict[str, str] | None = None, **options: object
    ) -> subprocess.Popen[str]:
        """Starts a command of Slurm on the first node."""
        environment = {**self.environment, **(env or {})}
        return self.nodes[0].popen(list(command), env=environment, **options)

    def kinds(self) -> list[str]:
        """What `srun --mpi` can be here."""
        lines = self.run("srun", "--mpi=list").stdout.split("\n")
        return [word for word in ("none", "pmi2", "pmix") if f"\t{word}" in lines]

    def drain(self, within: float = 10) -> bool:
        """Whether no job is left, after that many seconds at most."""
        end = time.monotonic() + within
        while self.run("squeue", "--noheader").stdout.strip():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def close(self) -> None:
        """Cancels all jobs, then ends the daemons, the controller last but one."""
        if self._daemons and (self.folder / "munge/socket").exists():
            self.run("scancel", "--user=root", "--signal=KILL", "--full")
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def _write(self) -> None:
        first = self.nodes[0]
        controller_port, *ports = _free_ports(1 + len(self.nodes))
        lines = [
            CONFIGURATION.format(
                controller=first.hostname,
                address=first.address(),
                port=controller_port,
                folder=self.folder,
            )
        ]
        for node, port in zip(self.nodes, ports):
            (self.folder / f"tmp.{node.name}").mkdir()
            (self.folder / f"spool.{node.name}").mkdir()
            host = f"NodeHostname={node.hostname} NodeAddr={node.address()} Port={port}"
            lines.append(f"NodeName={node.name} {host} CPUs={CPUS}\n")
        names = ",".join(node.name for node in self.nodes)
        lines.append(f"PartitionName=lab Nodes={names} Default=YES State=UP OverSubscribe=FORCE\n")
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text("".join(lines))
        (self.folder / "munge").mkdir(mode=0o755)
        key = self.folder / "munge/key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))

    def _munge(self) -> list[str]:
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log"}
        options = [f"--{name}={self.folder}/munge/{file}" for name, file in files.items()]
        # Its checks are for a machine's own /etc and /run; here they would meet the sticky /tmp.
        return [*options, f"--seed-file={self.folder}/munge/seed", "--force"]

    def _start(self, node: Node, *command: str) -> None:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        log = (self.folder / f"{command[0]}.{node.name}.out").open("w")
        with log:
            daemon = node.popen(list(command), env=self.environment, stderr=log, **quiet)
        self._daemons.append(daemon)

    def _idle(self) -> bool:
        states = self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
        return states == ["idle"] * len(self.nodes)

    def _wait_for(self, condition, what: str) -> None:
        end = time.monotonic() + START_TIMEOUT
        while not condition():
            ended = [daemon.args for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > end:
                logs = sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out"))
                said = "".join(f"{log.name}: {log.read_text()[-1000:]}\n" for log in logs)
                raise RuntimeError(f"no {what}; ended: {ended}; {said}")
            time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    """Ports at which nothing listens on this machine, and so on no host of namespaces either."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
