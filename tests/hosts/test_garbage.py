"""Strangers at every listening port of a job: they are dropped, and the job goes on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from host import Host
from jobs import HOROVODRUN, TIMEOUT, Job, assert_nothing_left, free_port, new_token

# Connects to each port of each address, says something, and tells whether it was hung up on.
STRANGER = r"""
import json, os, socket, sys, time
speeches = {
    "noise": os.urandom(4096),
    "half a hello": b"HVD",
    "a web browser": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(100000),
    "nothing": b"",
}
places = json.loads(sys.argv[1])
connections = []
for address, port in places:
    for name, speech in speeches.items():
        link = socket.create_connection((address, port), 5)
        link.settimeout(20)
        try:
            link.sendall(speech)
        except OSError:
            pass
        connections.append((link, f"{name} at {address}:{port}"))
kept, received = [], {}
for link, what in connections:
    count = 0
    try:
        while piece := link.recv(65536):
            count += len(piece)
    except TimeoutError:
        kept.append(what)
    except OSError:
        pass
    received[what] = count
print(json.dumps({"kept": kept, "received": received}))
"""

# Connects 400 times to each port and says nothing. Tells how many of a port's connections were open
# at once, once all had been made, and how many still are when no client can be honest any more.
FLOOD = r"""
import json, select, socket, sys, time
places = [tuple(place) for place in json.loads(sys.argv[1])]
held = {place: [] for place in places}
for place in places:
    for _ in range(400):
        link = socket.socket(socket.AF_INET)
        link.settimeout(5)
        link.connect(place)
        held[place].append(link)

def count():
    for place in places:
        for link in list(held[place]):
            poll = select.poll()
            poll.register(link, select.POLLIN)
            if poll.poll(0):
                held[place].remove(link)
    return {f"{address}:{port}": len(held[address, port]) for address, port in places}

time.sleep(1)
soon = count()
print("flooded", flush=True)
time.sleep(8)
print(json.dumps({"soon": soon, "late": count()}))
"""

# As LOOP, and starts again when it is told to.
AGAIN = """
import os, time, horovod.numpy as hvd
hvd.init()
print("up", flush=True)
while not os.path.exists(os.environ["STOP"]):
    time.sleep(0.05)
for _ in range(3):
    hvd.shutdown()
    hvd.init()
    assert hvd.allreduce(1.0, op=hvd.Sum, name="ranks") == hvd.size()
print("finished", flush=True)
"""

LOOP = """
import os, time, horovod.numpy as hvd
hvd.init()
print("up", flush=True)
while True:
    stop = os.path.exists(os.environ["STOP"])
    if hvd.allreduce(float(stop), op=hvd.Sum, name="stop") > 0:
        break
    time.sleep(0.01)
print("finished", flush=True)
"""


@pytest.fixture(scope="module")
def cluster(namespaces: None) -> Iterator[Cluster]:
    """Three hosts, so that two can wait for the third."""
    with Cluster(["hosta", "hostb", "hostc"]) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


def listening(host: Host) -> list[tuple[str, int]]:
    """All TCP ports of the host but that of its ssh server, with an address that leads there."""
    found = []
    for line in host.run("ss -Hltn").stdout.splitlines():
        address, _, port = line.split()[3].rpartition(":")
        if port != "12345":
            local = re.match(r"127\.|\[::1\]|\[::ffff:127", address)
            found.append(("127.0.0.1" if local else host.address(), int(port)))
    return found


def wait_for_ports(host: Host, count: int) -> None:
    """Returns when so many are open on the host."""
    end = time.monotonic() + TIMEOUT
    while len(listening(host)) < count:
        assert time.monotonic() < end, f"no ports on {host.name}"
        time.sleep(0.05)


def disturb(hosts: list[Host]) -> None:
    """Strangers come to every port of the hosts; all are sent away, and told next to nothing."""
    strangers = []
    for host in hosts:
        places = listening(host)
        assert places, host.name
        command = [sys.executable, "-c", STRANGER, json.dumps(places)]
        strangers.append(host.popen(command, stdout=subprocess.PIPE))
    for stranger in strangers:
        output, _ = stranger.communicate(timeout=2 * TIMEOUT)
        assert stranger.returncode == 0
        answer = json.loads(output)
        assert answer["kept"] == [] and len(answer["received"]) >= 5
        assert all(count <= 256 for count in answer["received"].values()), answer


def test_strangers_at_every_port_of_a_job(cluster: Cluster, tmp_path: Path) -> None:
    a, b, _ = cluster
    stop = tmp_path / "stop"
    env = {"STOP": str(stop)}
    job = Job(a, "-np", "4", "-H", "hosta:2,hostb:2", "python", "-c", LOOP, env=env)
    job.wait_for("up", 4)
    disturb([a, b])
    assert job.process.poll() is None, job.finish()
    stop.touch()
    ended = job.finish()
    assert ended.code == 0, ended
    assert ended.output.count("finished") == 4


def test_a_flood_at_every_port_of_a_job(cluster: Cluster, tmp_path: Path) -> None:
    """At most 256 strangers at a port, for five seconds; the job starts again meanwhile."""
    a, b, _ = cluster
    stop = tmp_path / "stop"
    env = {"STOP": str(stop)}
    job = Job(a, "-np", "4", "-H", "hosta:2,hostb:2", "python", "-c", AGAIN, env=env)
    job.wait_for("up", 4)
    floods = []
    for host in (a, b):
        places = listening(host)
        # The store and two ranks; the agent's way to the store and two ranks.
        assert len(places) >= 3, places
        command = [sys.executable, "-c", FLOOD, json.dumps(places)]
        floods.append(host.popen(command, stdout=subprocess.PIPE))
    for flood in floods:
        assert flood.stdout is not None and "flooded" in flood.stdout.readline()
    stop.touch()
    ended = job.finish()
    assert ended.code == 0 and ended.output.count("finished") == 4, ended
    assert "did not prove the job's key" in ended.errors, ended.errors
    for flood in floods:
        output, _ = flood.communicate(timeout=TIMEOUT)
        answer = json.loads(output)
        assert all(count <= 256 for count in answer["soon"].values()), answer
        assert all(count == 0 for count in answer["late"].values()), answer


def test_strangers_at_every_port_of_a_start(cluster: Cluster, tmp_path: Path) -> None:
    """Some are open only until ranks run: the driver's for agents, an agent's for probes."""
    a, b, c = cluster
    open_now = tmp_path / "open"
    login = c.path("/root/.bashrc")
    login.write_text(f"until [ -e {open_now} ]; do sleep 0.1; done\n")
    try:
        hosts = "hosta:1,hostb:1,hostc:1"
        job = Job(a, "-np", "3", "-H", hosts, "--start-timeout", "100", "echo", "ran")
        wait_for_ports(a, 2)  # for agents, and the key-value store
        wait_for_ports(b, 1)  # for probes
        disturb([a, b])
        assert job.process.poll() is None and job.output == ""
        open_now.touch()
        ended = job.finish()
    finally:
        open_now.touch()
        login.unlink()
    assert ended.code == 0 and ended.output.count("ran") == 3, ended


def flood(hosts: list[Host]) -> list[subprocess.Popen[str]]:
    """Floods every port of the hosts; returns when all connections have been made."""
    floods = []
    for host in hosts:
        places = listening(host)
        assert places, host.name
        command = [sys.executable, "-c", FLOOD, json.dumps(places)]
        floods.append(host.popen(command, stdout=subprocess.PIPE))
    for one in floods:
        assert one.stdout is not None and "flooded" in one.stdout.readline()
    return floods


def expect_bounds(floods: list[subprocess.Popen[str]]) -> None:
    """At most 256 silent connections were open at a port, and none after its deadline."""
    for one in floods:
        output, _ = one.communicate(timeout=TIMEOUT)
        answer = json.loads(output)
        assert answer["soon"] and all(count <= 256 for count in answer["soon"].values()), answer
        assert all(count == 0 for count in answer["late"].values()), answer


def test_a_flood_at_every_port_of_a_start(cluster: Cluster, tmp_path: Path) -> None:
    """The driver's for agents and an agent's for probes: as strict as those of a job, and what the
    last host needs still gets through a second flood."""
    a, b, c = cluster
    open_now = tmp_path / "open"
    login = c.path("/root/.bashrc")
    login.write_text(f"until [ -e {open_now} ]; do sleep 0.1; done\n")
    try:
        hosts = "hosta:1,hostb:1,hostc:1"
        job = Job(a, "-np", "3", "-H", hosts, "--start-timeout", "100", "echo", "ran")
        wait_for_ports(a, 2)  # for agents, and the key-value store
        wait_for_ports(b, 1)  # for probes
        expect_bounds(flood([a, b]))
        assert job.process.poll() is None and job.output == ""
        floods = flood([a, b])
        open_now.touch()
        ended = job.finish()
    finally:
        open_now.touch()
        login.unlink()
    expect_bounds(floods)
    assert ended.code == 0 and ended.output.count("ran") == 3, ended


def test_a_flood_at_the_port_for_agents_with_tokens(cluster: Cluster) -> None:
    """Anyone may reach the port of `--agents`; agents with the token come through the flood."""
    a, b, c = cluster
    token = {"HOROVOD_AGENT_TOKEN": new_token()}
    port = free_port(a)
    place = f"{a.address()}:{port}"
    options = ("-np", "3", "-H", "hosta:1,hostb:1,hostc:1", "--start-timeout", "100")
    agents = [b.popen([HOROVODRUN, "agent", "--once", place], env=token)]
    job = Job(a, *options, "--agents", str(port), "echo", "ran", port=None, env=token)
    wait_for_ports(b, 1)  # for probes: its agent has been let in
    assert (a.address(), port) in listening(a)
    expect_bounds(flood([a, b]))
    assert job.process.poll() is None and job.output == ""
    floods = flood([a, b])
    agents.append(c.popen([HOROVODRUN, "agent", "--once", place], env=token))
    ended = job.finish()
    expect_bounds(floods)
    for agent in agents:
        agent.wait(TIMEOUT)
    assert ended.code == 0 and ended.output.count("ran") == 3, ended
