"""`horovodrun doctor` on two hosts: what it shows of healthy ones, and of each trouble."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import sys
from pathlib import Path

import pytest
from cluster import Cluster
from host import Finished

HOSTS = ("-H", "hosta:2,hostb:2", "-p", "12345")
# Nothing needs as long; a trouble ends sooner, by its own deadline.
TIMEOUT = 90
PROGRAM = Path(sys.executable).with_name("horovodrun")

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="horovod is not installed")


def environment() -> dict[str, str]:
    return {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "NO_COLOR": "1"}


def doctor(cluster: Cluster, *words: str, cwd: str = "/") -> Finished:
    """What a user at hosta sees."""
    command = [str(PROGRAM), "doctor", *words]
    return cluster["hosta"].run(command, timeout=TIMEOUT, env=environment(), cwd=cwd)


def row(text: str, *beginning: str) -> list[str]:
    """The words of the first line that begins like this."""
    rows = [line.split() for line in text.splitlines()]
    return next(words for words in rows if words[: len(beginning)] == list(beginning))


def nothing_left(cluster: Cluster) -> bool:
    return not [process for host in cluster for process in host.left_over(10)]


def test_a_healthy_pair(cluster: Cluster) -> None:
    seen = doctor(cluster, *HOSTS)
    assert seen.returncode == 0, seen.stdout + seen.stderr
    assert seen.stderr == ""
    assert row(seen.stdout, "hosta")[:3] == ["hosta", "2", "local"]
    assert row(seen.stdout, "hostb", "2")[3] == "ms"
    b, a = (cluster[name].address() for name in ("hostb", "hosta"))
    for way in (["hosta", "hostb", b], ["hostb", "hosta", a]):
        words = row(seen.stdout, *way)
        assert words[4] in ("us", "ms") and words[6].endswith("bit/s"), words
    assert seen.stdout.splitlines()[-1].startswith("ready: ")
    assert nothing_left(cluster)


def test_the_same_for_programs(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('nobody runs this')\n")
    seen = doctor(cluster, *HOSTS, "--json", sys.executable, str(script))
    assert seen.returncode == 0, seen.stdout + seen.stderr
    report = json.loads(seen.stdout)
    assert [host["name"] for host in report["hosts"]] == ["hosta", "hostb"]
    for host in report["hosts"]:
        assert len(host["facts"]["script"]["content"]["sha256"]) == 64
        assert host["extra"]["interpreter"]["path"] == sys.executable
        assert host["extra"]["packages"]["horovod"] == report["version"]
        assert host["unreachable"] is None
    assert 0 < report["hosts"][1]["ssh_seconds"] < TIMEOUT
    assert len(report["pairs"]) == 2
    for pair in report["pairs"]:
        assert 0 < pair["round_trip_seconds"] < 1
        assert pair["bytes_per_second"] > 1e6


def test_a_slow_way_is_measured_and_not_waited_for(cluster: Cluster) -> None:
    cluster.rate(cluster["hostb"], "80mbit")
    try:
        report = json.loads(doctor(cluster, *HOSTS, "--json").stdout)
    finally:
        cluster.rate(cluster["hostb"], "10gbit")
    for pair in report["pairs"]:
        assert 2e6 < pair["bytes_per_second"] < 2e7


def test_one_host_without_ssh_server(cluster: Cluster) -> None:
    cluster["hostb"].sshd.stop()
    try:
        seen = doctor(cluster, *HOSTS)
    finally:
        cluster["hostb"].sshd.start()
    assert seen.returncode == 1
    assert row(seen.stdout, "hosta")[2] == "local"
    assert row(seen.stdout, "hostb", "2")[2:] == ["not", "reached"]
    _, why = seen.stdout.split("hostb was not reached:\n")
    assert "refused" in why and "sshd" in why
    assert seen.stdout.splitlines()[-1].startswith("not ready: 1 host not reached")


def test_a_firewall_between_them(cluster: Cluster) -> None:
    a, b = cluster
    with b.blocked_ports(20000, 65535, source=a.address()):
        seen = doctor(cluster, *HOSTS)
    assert seen.returncode == 1
    assert "no answer in time" in " ".join(row(seen.stdout, "hosta", "hostb"))
    assert row(seen.stdout, "hostb", "hosta")[6].endswith("bit/s")
    _, causes = seen.stdout.split("likely cause:\n")
    assert "`hostb`" in causes and "--port-range" in causes


def test_a_missing_script(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with cluster["hostb"].hidden(str(tmp_path)):
        seen = doctor(cluster, *HOSTS, "python3", "train.py", cwd=str(tmp_path))
    assert seen.returncode == 1
    assert "fatal: hostb: the script `train.py` does not exist there" in seen.stdout
    assert "ssh -p 12345 hostb tar -C / -xf -" in seen.stdout


def test_the_users_own_modules_are_compared(cluster: Cluster, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        (place / "model").mkdir(parents=True)
        (place / "train.py").write_text("import model.net\nimport data\nimport numpy\n")
        (place / "model" / "net.py").write_text(f"# the one {place.name}\n")
    (here / "data.py").touch()
    with cluster["hostb"].replaced(str(here), str(there)):
        seen = doctor(cluster, *HOSTS, "python3", "train.py", cwd=str(here))
    words = " ".join(seen.stdout.split())
    assert "hostb: `model/net.py`, which `train.py` imports, is another one there" in words, words
    assert "hostb: `data.py`, which `train.py` imports, does not exist there" in words, words
    same = doctor(cluster, *HOSTS, "python3", "train.py", cwd=str(here))
    assert "imports" not in same.stdout


def test_a_module_that_python_m_runs(cluster: Cluster, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        (place / "package").mkdir(parents=True)
        (place / "package" / "train.py").write_text(f"# the one {place.name}\n")
    command = ("python3", "-m", "package.train")
    with cluster["hostb"].replaced(str(here), str(there)):
        seen = doctor(cluster, *HOSTS, *command, cwd=str(here))
    words = " ".join(seen.stdout.split())
    assert "hostb: the script `package/train.py` is another one there" in words, words
    (there / "package" / "train.py").unlink()
    with cluster["hostb"].replaced(str(here), str(there)):
        seen = doctor(cluster, *HOSTS, *command, cwd=str(here))
    words = " ".join(seen.stdout.split())
    assert "hostb: `package/train.py`, which `python -m` runs here, does not exist" in words, words


def test_a_directory_that_only_one_host_has(cluster: Cluster, tmp_path: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    with cluster["hostb"].hidden(str(tmp_path)):
        seen = doctor(cluster, *HOSTS, cwd=str(place))
    assert seen.returncode == 1
    assert f"the working directory `{place}` does not exist there" in " ".join(seen.stdout.split())


@pytest.mark.skipif(not shutil.which("cc"), reason="turning a clock needs a C compiler")
def test_another_clock(cluster: Cluster) -> None:
    with cluster["hostb"].clock_ahead(600):
        seen = doctor(cluster, *HOSTS)
    assert seen.returncode == 0, seen.stdout
    assert "warning: hostb: the clock there is 10 min ahead" in seen.stdout
    assert "chrony" in seen.stdout


def test_a_full_disk(cluster: Cluster, tmp_path: Path) -> None:
    with cluster["hostb"].full(str(tmp_path)):
        seen = doctor(cluster, *HOSTS, cwd=str(tmp_path))
    assert seen.returncode == 0, seen.stdout
    assert f"warning: hostb: the disk of `{tmp_path}` is full" in " ".join(seen.stdout.split())


def test_this_machine_alone(cluster: Cluster) -> None:
    seen = doctor(cluster)
    assert seen.returncode == 0, seen.stdout + seen.stderr
    assert row(seen.stdout, "localhost")[:3] == ["localhost", "1", "local"]


def interrupt(cluster: Cluster, moment: str) -> int:
    """Presses Ctrl-C when this is shown, and returns the exit status."""
    terminal, stderr = pty.openpty()
    try:
        # Also where the tests themselves run in the background, which ignores Ctrl-C.
        command = ["env", "--default-signal=INT", str(PROGRAM), "doctor", *HOSTS]
        process = cluster["hosta"].popen(command, env=environment(), cwd="/", stderr=stderr)
        shown = ""
        while moment not in shown:
            assert select.select([terminal], [], [], 30)[0], shown
            shown += os.read(terminal, 1000).decode()
        process.send_signal(signal.SIGINT)
        return process.wait(10)
    finally:
        os.close(stderr)
        os.close(terminal)


def test_interrupting_it_leaves_nothing(cluster: Cluster) -> None:
    sshd = cluster["hostb"].sshd
    sshd.pause()
    try:
        assert interrupt(cluster, "waiting for hostb") == 128 + signal.SIGINT
    finally:
        sshd.resume()
    assert nothing_left(cluster)
    for moment in ("asking for Python", "measuring the way"):
        assert interrupt(cluster, moment) == 128 + signal.SIGINT
        assert nothing_left(cluster)
