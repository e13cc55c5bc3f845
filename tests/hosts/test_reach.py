"""Which way ranks reach each other: address by address, in both directions, never by interface
name; and what is said where there is no way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from cluster import Cluster, Network
from jobs import Ended, Job, assert_nothing_left, run

SUM = """
import os, horovod.numpy as hvd
hvd.init()
print(os.environ["HOROVOD_HOST_ADDRESSES"], float(hvd.allreduce(1.0, op=hvd.Sum)))
"""
ADDRESSES = ("bash", "-c", "echo $HOROVOD_HOST_ADDRESSES")
WAIT = """
import time, horovod.numpy as hvd
hvd.init()
hvd.allreduce(1.0)
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def cluster(namespaces: None) -> Iterator[Cluster]:
    """Two hosts with different cards on two networks, and a bridge that both have alike."""
    networks = [Network("lan"), Network("fast", ["10.231.1.0/24"], interfaces={"hostb": "ib0"})]
    with Cluster(networks=networks, docker_bridge=True) as cluster:
        yield cluster


def told(ended: Ended) -> list[str]:
    """What the ranks have printed, by rank."""
    assert ended.code == 0, ended
    return [line.split(":", 1)[1] for line in ended.lines()]


def one_each(cluster: Cluster, *arguments: str, **options) -> Ended:
    hosts = ",".join(f"{host.name}:1" for host in cluster)
    count = str(len(cluster.names))
    ended = run(cluster["hosta"], "-np", count, "-H", hosts, *arguments, **options)
    assert_nothing_left(cluster)
    return ended


def test_two_networks_and_a_bridge(cluster: Cluster) -> None:
    """The address that the name leads to is preferred; the bridge is no host's address."""
    ended = one_each(cluster, "--verbose", "python", "-c", SUM)
    assert ended.code == 0, ended
    for line in ended.lines():
        assert line.endswith(" 2.0") and "172.17.0.1" not in line
    assert "hostb=10.231.0.2" in ended.lines()[0] and "hosta=10.231.0.1" in ended.lines()[1]
    assert re.search(r"from row to column", ended.errors), ended.errors
    assert "10.231.0.1" in ended.errors and "10.231.0.2" in ended.errors


def test_a_network_that_is_broken_is_not_used(cluster: Cluster) -> None:
    """ssh gets through the first network, where all other ports are closed."""
    a, b = cluster
    closed = [(1, 12344), (12346, 65535)]
    with (
        a.blocked_ports(*closed[0], source="10.231.0.2"),
        a.blocked_ports(*closed[1], source="10.231.0.2"),
        b.blocked_ports(*closed[0], source="10.231.0.1"),
        b.blocked_ports(*closed[1], source="10.231.0.1"),
    ):
        lines = told(one_each(cluster, "python", "-c", SUM))
    assert "hostb=10.231.1.2" in lines[0] and "hosta=10.231.1.1" in lines[1]


def test_only_the_interfaces_that_were_asked_for(cluster: Cluster) -> None:
    lines = told(one_each(cluster, "--network-interfaces", "eth1,ib0", *ADDRESSES))
    assert "hostb=10.231.1.2" in lines[0] and "hosta=10.231.1.1" in lines[1]
    assert "10.231.0." not in "".join(lines)


def test_an_interface_that_a_host_does_not_have(cluster: Cluster) -> None:
    ended = one_each(cluster, "--network-interfaces", "eth0", *ADDRESSES)
    assert ended.code == 1 and ended.output == ""
    assert "`hostb` has no usable address on `eth0`" in ended.words()
    interfaces = ended.words().partition("(its interfaces: ")[2].partition(")")[0]
    assert {"ens5", "ib0", "docker0"} <= set(interfaces.split(", "))
    assert "correct --network-interfaces" in ended.words()


def test_one_way_only(cluster: Cluster) -> None:
    _, b = cluster
    closed = [(1, 12344), (12346, 65535)]
    with (
        b.blocked_ports(*closed[0], source="10.231.0.0/16"),
        b.blocked_ports(*closed[1], source="10.231.0.0/16"),
    ):
        ended = one_each(cluster, *ADDRESSES)
    assert ended.code == 1 and ended.output == ""
    words = ended.words()
    assert "the hosts do not all reach each other" in words
    assert "no host reaches `hostb`, though it reaches others itself" in words
    assert "--port-range" in words and "ufw allow" in words
    # The matrix: what was tried from where to where, and what came of it.
    assert re.search(r"hosta .*hostb", ended.errors) and "10.231.0.2" in words
    assert "timed out" in words or "no answer in time" in words


def test_a_port_range_is_kept_to(cluster: Cluster) -> None:
    """One end of each connection between ranks of different hosts is in it."""
    job = Job(
        cluster["hosta"],
        *("-np", "4", "-H", "hosta:2,hostb:2", "--port-range", "23000-23019"),
        *("python", "-c", WAIT),
    )
    job.wait_for("up", 4)
    b = cluster["hostb"]
    ranks = [one.pid for one in b.processes() if one.command.startswith("python -c")]
    lines = b.run("ss -Htnp state established").stdout.splitlines()
    lines = [line for line in lines if any(f"pid={pid}," in line for pid in ranks)]
    ends = [
        [end.rpartition(":")[2] for end in line.split()[2:4]] for line in lines if "10.231." in line
    ]
    job.process.terminate()
    job.finish()
    assert_nothing_left(cluster)
    assert len(ends) >= 4, "each of two ranks with each of two"
    assert all(any(23000 <= int(port) <= 23019 for port in ports) for ports in ends), ends


def test_a_blocked_port_range(cluster: Cluster) -> None:
    with cluster["hostb"].blocked_ports(23000, 23019):
        ended = one_each(cluster, "--port-range", "23000-23019", *ADDRESSES)
    assert ended.code == 1 and ended.output == ""
    words = ended.words()
    assert "the ports 23000-23019 of --port-range are blocked there" in words
    assert "no host reaches `hostb`" in words and "`ufw allow 23000:23019/tcp`" in words


def test_an_address_that_only_the_user_knows(cluster: Cluster) -> None:
    """As behind published ports of a container: no interface of the host has it."""
    a, b = cluster
    translation = [
        "add table ip nat",
        "add chain ip nat prerouting { type nat hook prerouting priority -100; }",
        f"add rule ip nat prerouting ip daddr 10.99.0.2 dnat to {b.address()}",
    ]
    a.namespace.do("ip", "route", "add", "10.99.0.2/32", "via", b.address())
    b.namespace.do("nft", "-f", "-", lines=translation)
    try:
        assert "10.99.0.2" not in b.run("ip address").stdout
        lines = told(one_each(cluster, "--advertise", "hostb=10.99.0.2", "python", "-c", SUM))
    finally:
        a.namespace.do("ip", "route", "del", "10.99.0.2/32")
        b.namespace.do("nft", "delete", "table", "ip", "nat")
    assert "hostb=10.99.0.2" in lines[0] and lines[0].endswith(" 2.0")


def test_ipv6_only(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(networks=[Network("six", ["fd00:231::/64"])])
    lines = told(one_each(cluster, "python", "-c", SUM))
    assert "hostb=fd00:231::2" in lines[0] and "hosta=fd00:231::1" in lines[1]
    assert all(line.endswith(" 2.0") for line in lines)
    by_address = ("-np", "2", "-H", "hosta:1,[fd00:231::2]:1")
    lines = told(run(cluster["hosta"], *by_address, "bash", "-c", "hostname"))
    assert lines == ["hosta", "hostb"]


def test_no_network_in_common(new_cluster: Callable[..., Cluster]) -> None:
    """The launcher's host reaches both, but they do not reach each other."""
    cluster = new_cluster(
        ["hosta", "hostb", "hostc"],
        networks=[
            Network("left", ["10.231.2.0/24"], hosts=["hosta", "hostb"]),
            Network("right", ["10.231.3.0/24"], hosts=["hosta", "hostc"]),
        ],
    )
    ended = one_each(cluster, *ADDRESSES)
    assert ended.code == 1 and ended.output == ""
    words = ended.words()
    assert "the hosts do not all reach each other" in words
    assert "`hostb` and `hostc` have no network in common" in words
    assert "`--advertise hostb=ADDRESS,hostc=ADDRESS`" in words
    assert "10.231.3.3 no route to that address" in words
