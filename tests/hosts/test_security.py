"""What SECURITY.md promises of a job on several hosts: at which addresses its ports listen, that
its key is its own and in none of its output, and which host keys ssh accepts. Strangers at these
ports: see `test_garbage.py`."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from host import Host
from jobs import HOROVODRUN, Job, assert_nothing_left, free_port, new_token, run
from test_garbage import wait_for_ports

LOOPBACK = "loopback"
ALL = "all addresses"
WAIT = """
import os, time, horovod.numpy as hvd
hvd.init()
hvd.allreduce(1.0)
print("up", flush=True)
while not os.path.exists(os.environ["STOP"]):
    time.sleep(0.05)
"""

# Writes the key where the test can read it, and nothing of it to its output.
KEY = """
import os, horovod.numpy as hvd
hvd.init()
hvd.allreduce(1.0)
with open(os.environ["HOROVOD_SECRET_KEY_FILE"]) as file:
    key = file.read()
with open(os.path.join(os.environ["KEYS"], str(hvd.rank())), "w") as file:
    file.write(key)
hvd.shutdown()
"""


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


def listening(host: Host) -> list[tuple[str, str, int]]:
    """Who listens at which addresses of the host at which port, except its ssh server."""
    found = []
    for line in host.run("ss -Hltnp").stdout.splitlines():
        fields = line.split()
        address, _, port = fields[3].rpartition(":")
        if port == "12345":
            continue
        if re.match(r"127\.|\[::1\]|\[::ffff:127", address):
            place = LOOPBACK
        else:
            assert address in ("0.0.0.0", "*", "[::]"), line
            place = ALL
        pid = re.search(r"pid=(\d+)", line)
        assert pid, line
        command = Path(f"/proc/{pid[1]}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found.append(("rank" if command.startswith("python -c") else "launcher", place, int(port)))
    return sorted(found)


def places(host: Host) -> list[tuple[str, str]]:
    return [(who, place) for who, place, _ in listening(host)]


def unix_sockets(host: Host) -> list[str]:
    """The unix sockets at which processes of the host listen, except its ssh server."""
    lines = (line.split() for line in host.run("ss -Hlxp").stdout.splitlines())
    return [fields[4] for fields in lines if "sshd" not in fields[-1]]


def test_ports_of_a_job_on_two_hosts(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    stop = tmp_path / "stop"
    hosts = ("-np", "4", "-H", "hosta:2,hostb:2")
    job = Job(a, *hosts, "python", "-c", WAIT, env={"STOP": str(stop)})
    job.wait_for("up", 4)
    # On the driver's host the key-value store, on the other the port that leads there.
    for host in (a, b):
        assert places(host) == [("launcher", LOOPBACK), ("rank", ALL), ("rank", ALL)], host.name
    # The one for shared memory is closed by now.
    (debug,) = unix_sockets(a)
    assert Path(debug).parent.name.startswith("horovod") and debug.endswith(".sock")
    assert unix_sockets(b) == []
    stop.touch()
    assert job.finish().code == 0


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_ports_of_a_job_on_one_host_are_those_of_the_loopback(
    cluster: Cluster, tmp_path: Path, transport: str
) -> None:
    a, _ = cluster
    stop = tmp_path / "stop"
    env = {"STOP": str(stop), "HOROVOD_TRANSPORT": transport}
    job = Job(a, "-np", "2", "python", "-c", WAIT, port=None, env=env)
    job.wait_for("up", 2)
    found = places(a)
    assert ("launcher", LOOPBACK) in found
    assert {place for _, place in found} == {LOOPBACK}, found
    stop.touch()
    assert job.finish().code == 0


def test_ports_of_a_start(cluster: Cluster, tmp_path: Path) -> None:
    """Those for agents and for probes are open to other hosts; the store never is."""
    a, b = cluster
    token = {"HOROVOD_AGENT_TOKEN": new_token()}
    port = free_port(a)
    # A host that never comes keeps the start where it is.
    hosts = ("-np", "3", "-H", "hosta:1,hostb:1,hostc:1", "--start-timeout", "100")
    job = Job(a, *hosts, "--agents", str(port), "echo", "ran", port=None, env=token)
    agent = b.popen([HOROVODRUN, "agent", "--once", f"{a.address()}:{port}"], env=token)
    wait_for_ports(b, 1)
    assert ("launcher", ALL, port) in listening(a)
    assert places(a).count(("launcher", LOOPBACK)) == 1, listening(a)
    assert places(b) == [("launcher", ALL)], listening(b)
    job.process.terminate()
    job.finish()
    agent.wait(20)


def test_the_key_is_in_no_output(cluster: Cluster, tmp_path: Path) -> None:
    a, _ = cluster
    options = ("--verbose", "--log-level", "TRACE")
    hosts = ("-np", "2", "-H", "hosta:1,hostb:1")
    ended = run(a, *hosts, *options, "python", "-c", KEY, env={"KEYS": str(tmp_path)})
    assert ended.code == 0, ended
    # The launcher and both ranks did say more than usual.
    assert "horovodrun: phase spawn" in ended.errors, ended.errors
    for rank in (0, 1):
        assert re.search(rf"\[{rank}\]<stderr>:.* (DEBUG|TRACE) ", ended.errors), ended.errors
    (digits,) = {path.read_text().strip() for path in tmp_path.iterdir()}
    key = bytes.fromhex(digits)
    assert len(key) == 32
    said = ended.output + ended.errors
    forms = [digits, digits.upper(), base64.b64encode(key).decode().rstrip("=")]
    forms += [", ".join(map(str, key)), " ".join(f"{byte:02x}" for byte in key)]
    for form in forms:
        # Not even a part of it.
        assert form not in said and form[:20] not in said and form[-20:] not in said


def test_jobs_with_one_token_have_keys_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    token = {"HOROVOD_AGENT_TOKEN": new_token()}
    keys = []
    for job in ("first", "second"):
        folder = tmp_path / job
        folder.mkdir()
        place = f"{a.address()}:{free_port(a)}"
        env = {**token, "KEYS": str(folder)}
        agent = b.popen([HOROVODRUN, "agent", "--once", place], env=env)
        options = ("-np", "2", "-H", "hosta:1,hostb:1", "--agents", place.rpartition(":")[2])
        ended = run(a, *options, "python", "-c", KEY, port=None, env=env)
        assert ended.code == 0, ended
        agent.wait(20)
        keys.append({path.read_text().strip() for path in folder.iterdir()})
    first, second = keys
    assert len(first) == len(second) == 1 and first != second


def test_a_new_host_key_is_remembered(cluster: Cluster) -> None:
    a, _ = cluster
    known = a.path("/root/.ssh/known_hosts")
    known.unlink(missing_ok=True)
    hosts = ("-np", "2", "-H", "hosta:1,hostb:1")
    assert run(a, *hosts, "true").code == 0
    assert a.run("ssh-keygen -F '[hostb]:12345'").returncode == 0
    # What was remembered is what a strict check asks for.
    assert run(a, *hosts, "--ssh-strict", "true").code == 0
