"""The fixture itself: hosts that differ, reach each other, and are gone afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Cluster, Network, impossible
from namespaces import PREFIX, sweep
from processes import inside

HERE = Path(__file__).parent
ACCEPT_NEW = ("-o", "StrictHostKeyChecking=accept-new", "-p", "12345")


def traces(cluster: Cluster) -> list[str]:
    """What the machine's own namespaces show of a cluster."""
    links = [network.name for network in cluster.networks]
    links += [interface.port for host in cluster for interface in host.interfaces]
    shown = {link: os.listdir("/sys/class/net") for link in links}
    scratch = cluster["hosta"].namespace.directory.parent.name
    shown[scratch] = Path("/proc/self/mounts").read_text()
    shown["10.231."] = subprocess.check_output(["ip", "route", "show", "table", "all"], text=True)
    shown["hosta"] = subprocess.check_output(["ip", "netns"], text=True)
    return [trace for trace, place in shown.items() if trace in place]


def network_namespaces() -> set[str]:
    """Those that a process is in."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(path))
    return found


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert impossible() == "making hosts out of namespaces needs root"


def test_hosts_are_different_machines(cluster: Cluster) -> None:
    here = os.uname().nodename
    names = [host.run("hostname").stdout.strip() for host in cluster]
    assert names == ["hosta", "hostb"] and here not in names
    for question in (
        "cat /proc/sys/kernel/random/boot_id",
        "cat /etc/machine-id",
        "ls /sys/class/net",
    ):
        answers = {host.run(question).stdout for host in cluster}
        assert len(answers) == 2, question
    assert [host.interfaces[0].name for host in cluster] == ["eth0", "ens5"]
    assert "eth0" not in cluster["hostb"].run("ip -o link").stdout


def test_ssh_by_name_without_password_both_ways(new_cluster: Callable[..., Cluster]) -> None:
    a, b = new_cluster(aliases={"gpu1": "hostb"})
    assert not a.path("/root/.ssh/known_hosts").exists()
    assert a.ssh(b, "hostname").stdout == "hostb\n"
    assert a.run("ssh-keygen -F '[hostb]:12345'").returncode == 0
    assert b.ssh("hosta", "hostname").stdout == "hosta\n"
    assert a.ssh("gpu1", "hostname").stdout == "hostb\n"
    assert a.ssh("hosta", "hostname").stdout == "hosta\n"


def test_unknown_name_is_unknown_at_once(cluster: Cluster) -> None:
    result = cluster["hosta"].ssh("nowhere", "true", timeout=5)
    assert result.returncode == 255 and "Name or service not known" in result.stderr


def test_command_runs_as_typed(cluster: Cluster, tmp_path: Path) -> None:
    a = cluster["hosta"]
    result = a.run(
        ["sh", "-c", "pwd; echo $WORD; cat; exit 3"],
        cwd=str(tmp_path),
        env={"WORD": "x"},
        input="in",
    )
    assert (result.returncode, result.stdout) == (3, f"{tmp_path}\nx\nin")
    with pytest.raises(subprocess.TimeoutExpired):
        a.run("sleep 60 & wait", timeout=0.2)
    assert a.left_over(5) == []


def test_files_of_one_host_stay_there(cluster: Cluster) -> None:
    a, b = cluster
    a.path("/etc/only-here").write_text("yes")
    a.run("touch /root/here /dev/shm/here /run/here")
    look = "ls /etc/only-here /root/here /dev/shm/here /run/here"
    assert a.run(look).returncode == 0
    assert b.run(look).stdout == ""
    assert not Path("/etc/only-here").exists() and not Path("/root/here").exists()


def test_remote_processes_are_seen_and_waited_for(cluster: Cluster) -> None:
    a, b = cluster
    session = a.popen(
        "ssh -o StrictHostKeyChecking=accept-new -p 12345 hostb 'echo up; sleep 61'",
        stdout=subprocess.PIPE,
    )
    assert session.stdout and session.stdout.readline() == "up\n"
    assert any("sleep 61" in process.command for process in b.processes())
    assert any("sleep 61" in process.command for process in b.left_over(0.1))
    for process in b.processes():
        if process.command == "sleep 61":
            os.kill(process.pid, signal.SIGTERM)
    assert b.left_over(5) == [] and a.left_over(5) == []


def test_several_networks(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(
        ["hosta", "hostb", "hostc"],
        networks=[
            Network("left", ["10.231.1.0/24", "fd00:231::/64"], hosts=["hosta", "hostb"]),
            Network(
                "right", ["10.231.2.0/24"], hosts=["hosta", "hostc"], interfaces={"hostc": "ib0"}
            ),
        ],
        docker_bridge=True,
    )
    a, b, c = cluster
    assert [interface.name for interface in a.interfaces] == ["eth0", "eth1"]
    assert [interface.name for interface in c.interfaces] == ["ib0"]
    assert a.ssh(b, "hostname").stdout == "hostb\n" and a.ssh(c, "hostname").stdout == "hostc\n"
    assert a.ssh(b.address("left", version=6), "hostname").stdout == "hostb\n"
    result = b.ssh(c, "hostname", "-o", "ConnectTimeout=2")
    assert result.returncode == 255 and "unreachable" in result.stderr
    assert all("172.17.0.1/16" in host.run("ip -o address").stdout for host in cluster)


def half_logged_in(cluster: Cluster) -> None:
    """Begins to speak to an ssh server, whose answer comes from a process in a chroot."""
    a, b = cluster
    begin = "exec 3<>/dev/tcp/hostb/12345; printf 'SSH-2.0-x\\r\\n' >&3; head -c 100 <&3 | wc -c"
    caller = a.popen(f"{begin}; sleep 62 <&3", stdout=subprocess.PIPE)
    assert caller.stdout and caller.stdout.readline() == "100\n"
    roots = [os.readlink(f"/proc/{process.pid}/root") for process in b.processes()]
    assert "/run/sshd" in roots


def test_nothing_is_left(namespaces: None) -> None:
    with pytest.raises(KeyboardInterrupt), Cluster() as cluster:
        for host in cluster:
            host.popen("setsid sleep 62 & trap '' TERM INT; sleep 62")
        half_logged_in(cluster)
        scratch = cluster["hosta"].namespace.directory.parent
        spaces = {os.readlink(f"/proc/{host.namespace.pid}/ns/net") for host in cluster}
        assert len(spaces) == 2 and spaces <= network_namespaces()
        assert inside(scratch) and str(os.getpid()) in scratch.name
        assert traces(cluster) == []
        raise KeyboardInterrupt
    assert inside(scratch) == [] and not scratch.exists()
    assert not spaces & network_namespaces()
    assert traces(cluster) == []


def test_leftovers_of_a_killed_run_are_swept(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a run that lives is left alone."""
    # A place of its own: any other run that starts now would sweep as well.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = """
from cluster import Cluster
cluster = Cluster(["x"]).__enter__()
cluster["x"].popen("exec >/dev/null; sleep 63")
print(cluster["x"].namespace.directory, flush=True)
input()
"""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=HERE, stdin=pipe, stdout=pipe, text=True) as killed:
        assert killed.stdout
        directory = Path(killed.stdout.readline().strip())
        killed.kill()
    assert directory.parent.name.startswith(PREFIX) and inside(directory)
    with Cluster(["alive"]) as cluster:  # sweeps before it makes anything
        assert inside(directory) == [] and not directory.parent.exists()
        assert sweep() == []
        assert cluster["alive"].run("hostname").stdout == "alive\n"


def test_by_hand(namespaces: None) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "by_hand.py", "2"]
    with subprocess.Popen(command, cwd=HERE, stdin=pipe, stdout=pipe, text=True) as hand:
        assert hand.stdout
        lines = []
        while not lines or not lines[-1].startswith("Ctrl-D"):
            lines.append(hand.stdout.readline())
            assert lines[-1], "".join(lines)
        assert any("-H hosta:2,hostb:2 -p 12345" in line for line in lines)
        entered = subprocess.run(
            [HERE / "enter", "hosta", "ssh", *ACCEPT_NEW, "hostb", "hostname"],
            env={**os.environ, "CLUSTER": str(hand.pid)},
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert entered.stdout == "hostb\n", entered.stderr
        output, _ = hand.communicate(timeout=20)
    assert output == "removed\n" and hand.returncode == 0
