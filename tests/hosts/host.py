"""One host of a cluster: what is typed there, what runs there, and what can go wrong there.

Troubles that would spoil the next test are context managers and end with their block.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path

from namespaces import Namespace
from processes import Process, inside, wait_ended
from sshd import PORT, Sshd

CLOCK_SOURCE = Path(__file__).with_name("clock.c")
Finished = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Interface:
    """A network card: its name in the host, its place in the switch, its addresses."""

    network: str
    name: str
    port: str
    addresses: tuple[IPv4Interface | IPv6Interface, ...]


class Host:
    """A machine, as far as programs can tell."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self.namespace = Namespace(name, scratch)
        self.interfaces: list[Interface] = []
        self.sshd: Sshd
        self._started: list[subprocess.Popen[str]] = []
        self._tables = itertools.count()

    @property
    def hostname(self) -> str:
        """What `hostname` prints there."""
        return self.name

    def address(self, network: str | None = None, version: int = 4) -> str:
        """The host's address in a network (default: the first one it has)."""
        for interface in self.interfaces:
            for address in interface.addresses:
                if network in (None, interface.network) and address.version == version:
                    return str(address.ip)
        raise LookupError(f"host {self.name} has no IPv{version} address in {network or 'any'}")

    # What is typed there.

    def popen(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **options: object,
    ) -> subprocess.Popen[str]:
        """Starts a command (a string goes to bash) as root would at the host's prompt.

        The environment is the caller's plus `env`; the directory is the caller's, or `cwd`.
        """
        if isinstance(command, str):
            command = ["bash", "-c", command]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SSH_")}
        home = {"HOME": os.path.expanduser("~root"), "HOSTNAME": self.name}
        process: subprocess.Popen[str] = subprocess.Popen(
            self.namespace.command(command, cwd or os.getcwd()),
            env={**inherited, **home, **(env or {})},
            text=True,
            start_new_session=True,
            **options,  # type: ignore[call-overload]
        )
        self._started.append(process)
        return process

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float = 30,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        input: str = "",
    ) -> Finished:
        """Runs a command to its end; past the timeout its process group is killed."""
        pipe = subprocess.PIPE
        process = self.popen(command, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def ssh(self, host: Host | str, command: str, *options: str, timeout: float = 30) -> Finished:
        """Runs a command on another host the way the launcher does; `options` win."""
        name = host if isinstance(host, str) else host.name
        fixed = ["-p", str(PORT), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new"]
        return self.run(["ssh", *options, *fixed, name, command], timeout=timeout)

    def path(self, path: str) -> Path:
        """A file as the host sees it. Writing below /etc and /root changes this host only."""
        return self.namespace.path(path)

    # What runs there.

    def processes(self) -> list[Process]:
        """Everything that runs there, except the ssh server and what keeps the host."""
        own = (self.namespace.pid, self.sshd.pid)
        return [process for process in inside(self.namespace.directory) if process.pid not in own]

    def left_over(self, within: float) -> list[Process]:
        """What still runs there after that many seconds; returns early once nothing does."""
        end = time.monotonic() + within
        while processes := self.processes():
            try:
                descriptor = os.pidfd_open(processes[0].pid)
            except ProcessLookupError:
                continue
            try:
                if not wait_ended(descriptor, end):
                    break
            finally:
                os.close(descriptor)
        return processes

    # Its network.

    def link_down(self, interface: str) -> None:
        """As `ifdown` there: the host knows at once. For a pulled cable see `Cluster.cut`."""
        self.namespace.do("ip", "link", "set", interface, "down")

    def link_up(self, interface: str) -> None:
        """Ends a `link_down`."""
        self.namespace.do("ip", "link", "set", interface, "up")

    @contextlib.contextmanager
    def unreachable(self, address: str) -> Iterator[None]:
        """Connecting from here to an address or subnet fails at once: no route to host."""
        self.namespace.do("ip", "route", "add", "unreachable", address)
        try:
            yield
        finally:
            self.namespace.do("ip", "route", "del", "unreachable", address)

    def dropped(self, address: str) -> contextlib.AbstractContextManager[None]:
        """Whatever goes to or comes from an address or subnet is lost without a word."""
        family = "ip6" if ":" in address else "ip"
        return self._filter(f"{family} saddr {address} drop", f"{family} daddr {address} drop")

    def blocked_ports(
        self, first: int, last: int, source: str | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """A firewall that swallows new connections to these ports, from `source` or from anyone.

        Connections that this host opens, and those already open, go on.
        """
        family = "ip6" if source and ":" in source else "ip"
        origin = f"{family} saddr {source} " if source else ""
        ports = f"tcp dport {first}-{last} tcp flags & (syn | ack) == syn drop"
        return self._filter(origin + ports)

    @contextlib.contextmanager
    def _filter(self, incoming: str, outgoing: str = "accept") -> Iterator[None]:
        table = f"inet test{next(self._tables)}"
        rules = [f"add table {table}"]
        for hook, rule in (("input", incoming), ("output", outgoing)):
            rules.append(f"add chain {table} {hook} {{ type filter hook {hook} priority 0; }}")
            rules.append(f"add rule {table} {hook} {rule}")
        self.namespace.do("nft", "-f", "-", lines=rules)
        try:
            yield
        finally:
            self.namespace.do("nft", "delete", "table", *table.split())

    # Its disks and its clock.

    def hidden(self, path: str) -> contextlib.AbstractContextManager[None]:
        """An empty directory covers `path`: hide a parent to make a directory missing."""
        return self._mounted(path, "size=64m")

    @contextlib.contextmanager
    def full(self, path: str) -> Iterator[None]:
        """A full disk covers the directory `path`: writing there fails with ENOSPC."""
        with self._mounted(path, "size=4k"):
            self.run(f"cat /dev/zero >{path}/filler 2>/dev/null", cwd="/")
            yield

    def replaced(self, path: str, other: str) -> contextlib.AbstractContextManager[None]:
        """The directory `other` covers `path`."""
        return self._covered(path, "--bind", other)

    def read_only(self, path: str) -> contextlib.AbstractContextManager[None]:
        """A directory is as a container sees one that is mounted read-only."""
        return self._covered(path, "--bind", "--options", "ro", path)

    def _mounted(self, path: str, size: str) -> contextlib.AbstractContextManager[None]:
        return self._covered(path, "-t", "tmpfs", "-o", f"mode=1777,{size}", "test")

    @contextlib.contextmanager
    def _covered(self, path: str, *by: str) -> Iterator[None]:
        self.namespace.do("mount", *by, path)
        try:
            yield
        finally:
            # Lazy: a process that still sits there does not keep it.
            self.namespace.do("umount", "--lazy", path)

    @contextlib.contextmanager
    def clock_ahead(self, seconds: int) -> Iterator[None]:
        """Every program started meanwhile reads a time of day that is off by so much.

        Time namespaces cannot do that: they shift the monotonic clocks only. A library that the
        loader of this host puts in front of every dynamically linked program can.
        """
        library, preload = "/etc/clock.so", self.path("/etc/ld.so.preload")
        before = preload.read_text() if preload.exists() else None
        build = ["cc", "-shared", "-fPIC", "-O1", f"-DAHEAD={seconds}", "-o", library]
        self.namespace.do(*build, str(CLOCK_SOURCE))
        preload.write_text(f"{before or ''}{library}\n")
        try:
            yield
        finally:
            preload.write_text(before or "")

    def close(self) -> None:
        """Ends what `popen` has started, also if it has not entered the host yet."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            process.wait()
