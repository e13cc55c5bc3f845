"""Each trouble a host can be given shows itself as it would on a real one, and ends."""

from __future__ import annotations

import subprocess
import time

from cluster import Cluster
from host import Finished, Host

QUICKLY = ("-o", "ConnectTimeout=1")


def connect(host: Host, address: str, port: int) -> Finished:
    """Tries for a second to connect."""
    return host.run(["timeout", "1", "bash", "-c", f"</dev/tcp/{address}/{port}"])


def works(cluster: Cluster) -> bool:
    a, b = cluster
    return a.ssh(b, "true").returncode == 0 and b.ssh(a, "true").returncode == 0


def test_cut(cluster: Cluster) -> None:
    a, b = cluster
    cluster.cut(b)
    assert "Connection timed out" in a.ssh(b, "true", *QUICKLY).stderr
    cluster.mend(b)
    assert works(cluster)


def test_link_down(cluster: Cluster) -> None:
    a, b = cluster
    b.link_down("ens5")
    assert a.ssh(b, "true", *QUICKLY).returncode == 255
    assert "Network is unreachable" in b.ssh(a, "true", *QUICKLY).stderr
    b.link_up("ens5")
    assert works(cluster)


def test_unreachable_and_dropped(cluster: Cluster) -> None:
    a, b = cluster
    with a.unreachable(b.address()):
        assert "No route to host" in a.ssh(b, "true", *QUICKLY).stderr
    with b.dropped(a.address()):
        assert "timed out" in a.ssh(b, "true", *QUICKLY).stderr
        assert "timed out" in b.ssh(a, "true", *QUICKLY).stderr
    assert works(cluster)


def test_blocked_ports(cluster: Cluster) -> None:
    a, b = cluster
    with b.blocked_ports(30000, 30010):
        assert connect(a, "hostb", 30010).returncode == 124
        assert "refused" in connect(a, "hostb", 30011).stderr
        assert works(cluster)
    with b.blocked_ports(1, 65535, source=a.address()):
        assert "timed out" in a.ssh(b, "true", *QUICKLY).stderr
        assert b.ssh(a, "true").returncode == 0
    assert works(cluster)


def test_sshd(cluster: Cluster) -> None:
    a, b = cluster
    b.sshd.stop()
    assert "Connection refused" in a.ssh(b, "true").stderr
    with b.sshd.running("PubkeyAuthentication no", "PasswordAuthentication yes"):
        assert "Permission denied (password)" in a.ssh(b, "true").stderr
    with b.sshd.running("AuthorizedKeysFile none"):
        assert "Permission denied (publickey)" in a.ssh(b, "true").stderr
    with b.sshd.running(port=12346):
        assert "Connection refused" in a.ssh(b, "true").stderr
        assert a.ssh(b, "hostname", "-p", "12346").stdout == "hostb\n"
    b.sshd.pause()
    assert "timed out" in a.ssh(b, "true", *QUICKLY).stderr
    b.sshd.resume()
    assert works(cluster)
    assert "Accepted publickey" in b.sshd.log


def test_changed_host_key(cluster: Cluster) -> None:
    a, b = cluster
    assert works(cluster)
    b.sshd.new_host_key()
    with b.sshd.running():
        assert "HOST IDENTIFICATION HAS CHANGED" in a.ssh(b, "true").stderr
    a.path("/root/.ssh/known_hosts").unlink()
    assert works(cluster)


def test_disks(cluster: Cluster, tmp_path: object) -> None:
    a, b = cluster
    place = f"{tmp_path}/work"
    subprocess.run(["mkdir", place], check=True)
    subprocess.run(["touch", f"{place}/script.py"], check=True)
    with b.hidden(place):
        assert b.run(f"ls {place}").stdout == ""
        assert a.run(f"ls {place}").stdout == "script.py\n"
    with b.hidden(str(tmp_path)):
        assert "No such file or directory" in b.run("true", cwd=place).stderr
    with b.full(place):
        assert "No space left on device" in b.run("echo word >file", cwd=place).stderr
    assert b.run(f"ls {place}").stdout == "script.py\n"


def test_clock(cluster: Cluster) -> None:
    a, b = cluster
    with b.clock_ahead(-7200):
        there = int(a.ssh(b, "date +%s").stdout)
        assert -7210 < there - time.time() < -7190
        assert abs(int(a.run("date +%s").stdout) - time.time()) < 10
    assert abs(int(b.run("date +%s").stdout) - time.time()) < 10


def test_rate(cluster: Cluster) -> None:
    a, b = cluster
    cluster.rate(b, "16mbit")
    started = time.monotonic()
    send = (
        "head -c 2000000 /dev/zero | ssh -o StrictHostKeyChecking=accept-new -p 12345 hostb 'wc -c'"
    )
    assert a.run(send).stdout == "2000000\n"
    # One second for 2 MB at that rate, less the bucket's 256 kB.
    assert time.monotonic() - started > 0.8
    cluster.rate(b, "10gbit")
