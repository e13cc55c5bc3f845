"""A cluster of hosts on one machine: namespaces, joined by bridges, each with its own ssh server.

    with Cluster(["hosta", "hostb"]) as cluster:
        cluster["hosta"].run(["ssh", "-p", "12345", "hostb", "hostname"])

The bridges live in a namespace of their own, the *switch*, so that neither the machine's addresses
nor its packet filter (a container engine's, say) have to do with the hosts. Needs root and the
packages that `scripts/hosts.sh` installs. By hand: `make hosts N=3`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_interface, ip_network
from pathlib import Path

from host import Host, Interface
from namespaces import Namespace, Scratch, sweep
from processes import Process
from sshd import Sshd

# Machines of different makers call their cards differently; so do ours, in turn.
CARDS = (("eth{}", 0), ("ens{}", 5), ("enp{}s0", 3))
DOCKER_BRIDGE = "172.17.0.1/16"


@dataclass(frozen=True)
class Network:
    """A cable segment: the n-th host of the cluster has the n-th address of each subnet.

    `hosts` restricts who is on it (default: all); `interfaces` names cards, by host.
    """

    name: str = "lan"
    subnets: Sequence[str] = ("10.231.0.0/24",)
    hosts: Sequence[str] | None = None
    interfaces: Mapping[str, str] = field(default_factory=dict)


class Cluster:
    """Hosts by name. A name in `aliases` is one more name for the host it maps to."""

    def __init__(
        self,
        names: Sequence[str] = ("hosta", "hostb"),
        *,
        networks: Sequence[Network] = (Network(),),
        docker_bridge: bool = False,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.names = tuple(names)
        self.networks = tuple(networks)
        self.hosts: dict[str, Host] = {}
        self._namespaces: list[Namespace] = []
        self._docker_bridge = docker_bridge
        self._aliases = dict(aliases or {})

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts.values())

    def __enter__(self) -> Cluster:
        why = impossible()
        if why:
            raise RuntimeError(why)
        sweep()
        self._scratch = Scratch()
        try:
            self._open(self._scratch.path)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends whatever runs on the hosts and removes everything."""
        try:
            for host in self:
                host.close()
        finally:
            self._scratch.remove()
            for namespace in self._namespaces:
                namespace.close()

    def _open(self, scratch: Path) -> None:
        key = scratch / "id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        self.switch = Namespace("switch", scratch)
        self._namespaces.append(self.switch)
        for name in self.names:
            self.hosts[name] = Host(name, scratch)
            self._namespaces.append(self.hosts[name].namespace)
        for namespace in self._namespaces:
            namespace.wait_ready()
        self._plug_in()
        for host in self:
            self._configure(host)
            host.sshd = Sshd(host.namespace, key.read_text())
            host.sshd.start()

    def _plug_in(self) -> None:
        """Bridges, and one cable from each to each of its hosts."""
        ports = 0
        lines = []
        for network in self.networks:
            lines.append(f"link add {network.name} type bridge")
            lines.append(f"link set {network.name} up")
            for index, host in enumerate(self):
                if network.hosts is not None and host.name not in network.hosts:
                    continue
                card = _card(network, host, index)
                interface = Interface(
                    network.name, card, f"port{ports}", _addresses(network, index)
                )
                host.interfaces.append(interface)
                ports += 1
                peer = f"peer name {card} netns {host.namespace.pid}"
                lines.append(f"link add {interface.port} type veth {peer}")
                lines.append(f"link set {interface.port} master {network.name} up")
        self.switch.do("ip", "-batch", "-", lines=lines)

    def _configure(self, host: Host) -> None:
        lines = []
        for interface in host.interfaces:
            for address in interface.addresses:
                nodad = " nodad" if address.version == 6 else ""
                lines.append(f"address add {address} dev {interface.name}{nodad}")
            lines.append(f"link set {interface.name} up")
        if self._docker_bridge:
            lines.append("link add docker0 type bridge")
            lines.append(f"address add {DOCKER_BRIDGE} dev docker0")
            lines.append("link set docker0 up")
        host.namespace.do("ip", "-batch", "-", lines=lines)
        names = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        names += [f"{_address_between(host, other)} {other.name}" for other in self]
        for alias, name in self._aliases.items():
            names.append(f"{_address_between(host, self[name])} {alias}")
        host.path("/etc/hosts").write_text("".join(line + "\n" for line in names))

    def processes(self) -> list[Process]:
        """What runs on the hosts; see `Host.processes`."""
        return [process for host in self for process in host.processes()]

    def cut(self, host: Host, network: str | None = None) -> None:
        """Pulls the host's cables, or the one to a network: nothing is told, nothing arrives."""
        self._ports(host, network, "down")

    def mend(self, host: Host, network: str | None = None) -> None:
        """Ends a `cut`."""
        self._ports(host, network, "up")

    def _ports(self, host: Host, network: str | None, state: str) -> None:
        for interface in host.interfaces:
            if network in (None, interface.network):
                self.switch.do("ip", "link", "set", interface.port, state)

    def rate(self, host: Host, rate: str, network: str | None = None) -> None:
        """Limits the host's links to `rate` (as `100mbit`), each way; again to change it."""
        bucket = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
        for interface in host.interfaces:
            if network in (None, interface.network):
                self.switch.do("tc", "qdisc", "replace", "dev", interface.port, *bucket)
                host.namespace.do("tc", "qdisc", "replace", "dev", interface.name, *bucket)


def _card(network: Network, host: Host, index: int) -> str:
    pattern, first = CARDS[index % len(CARDS)]
    name = pattern.format(first + len(host.interfaces))
    return network.interfaces.get(host.name, name)


def _addresses(network: Network, index: int) -> tuple:
    nets = [ip_network(subnet) for subnet in network.subnets]
    return tuple(ip_interface(f"{net[index + 1]}/{net.prefixlen}") for net in nets)


def _address_between(host: Host, other: Host) -> str:
    """The address under which `host` knows `other`: in the first network that both are on."""
    mine = {interface.network for interface in host.interfaces}
    shared = [interface for interface in other.interfaces if interface.network in mine]
    return str((shared or other.interfaces)[0].addresses[0].ip)


def impossible() -> str | None:
    """Why no cluster can be made here, if so."""
    if os.geteuid() != 0:
        return "making hosts out of namespaces needs root"
    trial = ["unshare", "--net", "--mount", "--uts", "--ipc", "true"]
    refused = subprocess.run(trial, capture_output=True, text=True, check=False)
    if refused.returncode != 0:
        return f"this machine allows no namespaces: {refused.stderr.strip()}"
    return None
