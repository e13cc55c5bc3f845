"""Refusals that another argument mends, a variable or a line of /etc/hosts: each is typed as it was
printed, and the job that was refused runs. Lines for other hosts are in `test_remedies.py`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster, Network
from host import Host
from jobs import assert_nothing_left, kill
from typed import ECHO, ONE_EACH, command, copying, refused, runs, types


@pytest.fixture(scope="module")
def cluster(namespaces: None) -> Iterator[Cluster]:
    """Two hosts on two networks; the second host has another name as well."""
    networks = [Network("lan"), Network("fast", ["10.231.1.0/24"], interfaces={"hostb": "ib0"})]
    with Cluster(networks=networks, aliases={"twin": "hostb"}) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


# Ports and names.


@contextlib.contextmanager
def own_server(host: Host) -> Iterator[None]:
    """The machine's own ssh server at the usual port, which takes passwords only."""
    options = "-o PubkeyAuthentication=no -o PasswordAuthentication=yes"
    types(host, f"/usr/sbin/sshd -p 22 {options}")
    try:
        yield
    finally:
        kill(*(one.pid for one in host.processes() if "sshd -p 22 " in one.command))


def test_a_forgotten_port_is_added(cluster: Cluster) -> None:
    a, b = cluster
    job = (*ONE_EACH, *ECHO)
    with own_server(b):
        words = refused(a, *job, port=None)
        assert "would ask user `root` for a password" in words
        runs(a, *command(words, "-p ").split(), *job, port=None)


def test_a_forgotten_port_is_added_where_nothing_listens(cluster: Cluster) -> None:
    a, _ = cluster
    words = refused(a, *ONE_EACH, *ECHO, port=None)
    assert "nothing listens at port 22 of host `hostb`" in words
    runs(a, *command(words, "-p ").split(), *ONE_EACH, *ECHO, port=None)


def test_a_name_is_added_to_the_file_of_names(cluster: Cluster) -> None:
    a, b = cluster
    names = a.path("/etc/hosts")
    before = names.read_text()
    job = ("-np", "2", "-H", "hosta:1,nowhere:1", *ECHO)
    words = refused(a, *job)
    question = command(words, "getent ")
    assert a.run(question).stdout == "" and "add the name to /etc/hosts" in words
    try:
        types(a, f"echo {b.address()} nowhere >> /etc/hosts")
        assert b.address() in types(a, question).stdout
        runs(a, *job)
    finally:
        names.write_text(before)


def test_an_address_does_where_a_name_is_unknown(cluster: Cluster) -> None:
    a, b = cluster
    words = refused(a, "-np", "2", "-H", "hosta:1,nowhere:1", *ECHO)
    assert "else give the address itself" in words
    runs(a, "-np", "2", "-H", f"hosta:1,{b.address()}:1", *ECHO)


def test_a_host_that_is_listed_twice_is_listed_once(cluster: Cluster) -> None:
    a, _ = cluster
    words = refused(a, "-np", "3", "-H", "hostb:1,hosta:1,hostb:1", *ECHO)
    once = command(words, "hostb:")
    runs(a, "-np", "3", "-H", f"{once},hosta:1", *ECHO, ranks=3)


def test_two_names_of_one_machine_become_one(cluster: Cluster) -> None:
    a, _ = cluster
    words = refused(a, "-np", "3", "-H", "hosta:1,hostb:1,twin:1", *ECHO)
    assert "`hostb` and `twin` are one machine" in words
    runs(a, "-np", "3", "-H", f"hosta:1,{copying(words)}", *ECHO, ranks=3)


# What the refusal says to write, and what was written; `host` stands for a name that is local.
LISTS = {
    "no host": ("-H", "", "-H localhost:"),
    "no slots": ("-H", "localhost:many", "-H localhost:"),
    "an empty file": ("--hostfile", "# nobody\n", "node1 slots="),
    "a bad line": ("--hostfile", "localhost slots=many\n", "node1 slots="),
    "an unknown field": ("--hostfile", "localhost slots=4 gpus=2\n", "localhost slots="),
    "a host twice": ("--hostfile", "localhost slots=1\nlocalhost slots=1\n", "localhost slots="),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_hosts_is_written_as_is_said(cluster: Cluster, tmp_path: Path, name: str) -> None:
    option, written, beginning = LISTS[name]
    a, _ = cluster
    file = tmp_path / "hosts"
    file.write_text(written)
    value = str(file) if option == "--hostfile" else written
    words = refused(a, "-np", "2", option, value, *ECHO, port=None)
    line = command(words, beginning)
    if option == "-H":
        runs(a, "-np", "2", *line.split(), *ECHO, port=None)
    else:
        file.write_text(line.replace("node1", "localhost") + "\n")
        runs(a, "-np", "2", option, value, *ECHO, port=None)


INIT = "import horovod.numpy as hvd; hvd.init(); print('ran')"


def test_a_range_of_too_few_ports_is_made_larger(cluster: Cluster) -> None:
    a, _ = cluster
    hosts, train = ("-np", "4", "-H", "hosta:2,hostb:2"), ("python", "-c", INIT)
    words = refused(a, *hosts, "--port-range", "23000-23000", *train)
    assert "finds no free port in HOROVOD_PORT_RANGE=23000-23000" in words
    option = re.search(r"give a larger range \(`(--port-range)`\)", words)
    assert option, words
    runs(a, *hosts, option[1], "23000-23001", *train, ranks=4)


def test_a_slow_start_is_given_more_time(cluster: Cluster) -> None:
    a, b = cluster
    login = b.path("/root/.bashrc")
    before = login.read_text() if login.exists() else ""
    login.write_text("sleep 5\n")
    try:
        words = refused(a, *ONE_EACH, "--start-timeout", "2", *ECHO)
        assert "if it works but is slow, allow more with --start-timeout" in words
        types(a, command(words, "ssh "))
        runs(a, *ONE_EACH, "--start-timeout", "60", *ECHO)
    finally:
        login.write_text(before)


# Addresses.


def test_the_names_of_interfaces_are_corrected(cluster: Cluster) -> None:
    """By one that the refusal lists."""
    a, _ = cluster
    words = refused(a, *ONE_EACH, "--network-interfaces", "eth0", *ECHO)
    assert "correct --network-interfaces; names may differ from host to host" in words
    first = words.partition("(its interfaces: ")[2].partition(",")[0]
    runs(a, *ONE_EACH, "--network-interfaces", f"eth0,{first}", *ECHO)


def test_interfaces_that_do_not_do_are_left_out(cluster: Cluster) -> None:
    a, b = cluster
    source = a.address("lan")
    with b.blocked_ports(1, 12344, source), b.blocked_ports(12346, 65535, source):
        words = refused(a, *ONE_EACH, "--network-interfaces", "eth0,ens5", *ECHO)
        assert "were tried; leave it out to try all" in words
        left_out = command(words, "--network-interfaces ")
        assert left_out == "--network-interfaces eth0,ens5"
        runs(a, *ONE_EACH, *ECHO)


def translating(router: Host, known: dict[str, str]) -> list[str]:
    """Rules of a router that knows addresses by others, and speaks for who connects through it."""
    rules = ["add table ip nat"]
    for chain, priority in (("prerouting", -100), ("output", -100), ("postrouting", 100)):
        hook = f"{{ type nat hook {chain} priority {priority}; }}"
        rules.append(f"add chain ip nat {chain} {hook}")
    for outside, inside in known.items():
        for chain in ("prerouting", "output"):
            rules.append(f"add rule ip nat {chain} ip daddr {outside} dnat to {inside}")
        router.namespace.do("ip", "route", "add", outside, "via", inside)
    rules.append("add rule ip nat postrouting ct status dnat masquerade")
    return rules


def test_addresses_that_only_the_user_knows_are_advertised(
    new_cluster: Callable[..., Cluster],
) -> None:
    """Two networks, and between them a router that translates addresses no host has."""
    cluster = new_cluster(
        ["hosta", "hostb", "hostc"],
        networks=[
            Network("left", ["10.231.2.0/24"], hosts=["hosta", "hostb"]),
            Network("right", ["10.231.3.0/24"], hosts=["hosta", "hostc"]),
        ],
    )
    a, b, c = cluster
    known = {b: "10.99.0.2", c: "10.99.0.3"}
    types(a, "echo 1 > /proc/sys/net/ipv4/ip_forward")
    rules = translating(a, {outside: host.address() for host, outside in known.items()})
    a.namespace.do("nft", "-f", "-", lines=rules)
    b.namespace.do("ip", "route", "add", "10.99.0.0/24", "via", a.address("left"))
    c.namespace.do("ip", "route", "add", "10.99.0.0/24", "via", a.address("right"))
    hosts = ("-np", "3", "-H", "hosta:1,hostb:1,hostc:1")
    words = refused(a, *hosts, *ECHO)
    assert "`hostb` and `hostc` have no network in common" in words
    option = command(words, "--advertise ")
    for host, address in known.items():
        option = option.replace(f"{host.name}=ADDRESS", f"{host.name}={address}")
    assert "ADDRESS" not in option
    runs(a, *hosts, *option.split(), *ECHO, ranks=3)
    assert_nothing_left(cluster)


# Programs and files.


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A program in two directories, the first of which the second host does not have."""
    for name in ("bin", "other"):
        tool = tmp_path / name / "tool"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\necho ran\n")
        tool.chmod(0o755)
    return tmp_path / "bin/tool"


def test_a_command_is_given_by_its_full_path(cluster: Cluster, tool: Path) -> None:
    a, b = cluster
    env = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    with b.hidden(str(tool.parent)):
        words = refused(a, *ONE_EACH, "tool", env=env)
        assert "give its full path instead of `tool`" in words
        runs(a, *ONE_EACH, str(tool.parents[1] / "other/tool"), env=env)


def test_a_command_is_given_by_the_path_it_has_there(cluster: Cluster, tool: Path) -> None:
    a, b = cluster
    with b.hidden(str(tool.parent)):
        words = refused(a, *ONE_EACH, str(tool))
        assert f"the command `{tool}` does not exist there" in words
        assert "or give the path it has there" in words
        runs(a, *ONE_EACH, str(tool.parents[1] / "other/tool"))
