"""What keeps a job from starting on other hosts: each cause is told with its host and its remedy,
within seconds, and nothing is left anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from host import Host
from jobs import HOROVODRUN, INTERPRETER, Ended, assert_nothing_left, run

ONE_EACH = ("-np", "2", "-H", "hosta:1,hostb:1")
SOON = 15.0
"""Seconds for what takes less than one on a machine with nothing else to do."""


@pytest.fixture(scope="module")
def cluster(namespaces: None) -> Iterator[Cluster]:
    """Two hosts; the second has another name as well."""
    with Cluster(aliases={"twin": "hostb"}) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


def refused(host: Host, *arguments: str, code: int = 1, within: float = SOON, **options) -> str:
    """The one line that a job gets instead of a start; no rank has run."""
    command = arguments if "--" in arguments else (*arguments, "echo", "ran")
    ended: Ended = run(host, *(word for word in command if word != "--"), within=within, **options)
    assert ended.code == code and "ran" not in ended.output, ended
    assert "panicked" not in ended.errors and "Traceback" not in ended.errors, ended
    lines = [line for line in ended.errors.splitlines() if line.startswith("horovodrun: ")]
    assert len(lines) == 1, ended.errors
    return ended.words()


# On the way there.


def test_a_name_that_does_not_resolve(cluster: Cluster) -> None:
    words = refused(cluster["hosta"], "-np", "2", "-H", "hosta:1,nowhere:1")
    assert "the name `nowhere` does not resolve" in words
    assert "`getent hosts nowhere`" in words and "/etc/hosts" in words


def test_nothing_listens(cluster: Cluster) -> None:
    words = refused(cluster["hosta"], *ONE_EACH, port=12399)
    assert "nothing listens at port 12399 of host `hostb`" in words
    assert "`/usr/sbin/sshd -p 12399`" in words and "`-p` names it" in words


def test_no_answer(cluster: Cluster) -> None:
    a, b = cluster
    with b.blocked_ports(1, 65535):
        words = refused(a, *ONE_EACH, "--start-timeout", "3")
    assert "host `hostb` does not answer at port 12345 (timed out)" in words
    assert "`nc -vz hostb 12345`" in words


def test_a_server_that_says_nothing(cluster: Cluster) -> None:
    a, b = cluster
    b.sshd.pause()
    try:
        words = refused(a, *ONE_EACH, "--start-timeout", "3")
    finally:
        b.sshd.resume()
    assert "host `hostb`" in words and "ssh -v -p 12345 hostb" in words


def test_no_way(cluster: Cluster) -> None:
    a, b = cluster
    with a.unreachable(b.address()):
        words = refused(a, *ONE_EACH)
    assert "host `hostb` does not answer: it is off, or" in words and "no route to host" in words
    assert f"`ip route get {b.address()}`" in words or "`ip route get hostb`" in words


def test_a_host_that_is_off_is_told_of_within_ten_seconds(cluster: Cluster) -> None:
    a, b = cluster
    cluster.cut(b)
    a.run("ip neigh flush all")
    try:
        words = refused(a, *ONE_EACH, within=10)
    finally:
        cluster.mend(b)
    assert "host `hostb` does not answer" in words and "it is off, or" in words
    assert "is it switched on" in words


def test_a_host_behind_a_router_that_is_off_is_told_of_within_ten_seconds(cluster: Cluster) -> None:
    """Then not even the router says anything."""
    a, b = cluster
    with b.blocked_ports(1, 65535):
        words = refused(a, *ONE_EACH, within=10)
    assert "host `hostb` does not answer at port 12345 (timed out): it is off, or" in words


# At the door.


def test_a_key_that_is_not_taken(cluster: Cluster) -> None:
    a, b = cluster
    with b.sshd.running("AuthorizedKeysFile none"):
        words = refused(a, *ONE_EACH)
    assert "host `hostb` takes none of your keys for user `root`" in words
    assert "`ssh-copy-id -p 12345 root@hostb`" in words


def test_a_password_would_be_needed(cluster: Cluster) -> None:
    a, b = cluster
    with b.sshd.running("PubkeyAuthentication no", "PasswordAuthentication yes"):
        words = refused(a, *ONE_EACH)
    assert "host `hostb` would ask user `root` for a password" in words
    assert "`ssh-copy-id -p 12345 root@hostb`" in words


def test_a_forgotten_port_where_the_machines_own_server_answers(cluster: Cluster) -> None:
    """Which knows nothing of the container's keys."""
    a, b = cluster
    own = ("PubkeyAuthentication no", "PasswordAuthentication yes")
    with b.sshd.running(*own, port=22):
        words = refused(a, *ONE_EACH, port=None)
    assert "host `hostb` would ask user `root` for a password" in words
    assert "listens at port 22" in words and "name its port, e.g. `-p 12345`" in words


def test_an_unknown_host_key(cluster: Cluster) -> None:
    """Only with `--ssh-strict`; the remedy that is given works."""
    a, _ = cluster
    known = a.path("/root/.ssh/known_hosts")
    known.unlink(missing_ok=True)
    words = refused(a, *ONE_EACH, "--ssh-strict")
    assert "the key of host `hostb` is not among the known ones" in words
    remedy = f"ssh-keyscan -p 12345 hostb >> {os.path.expanduser('~root')}/.ssh/known_hosts"
    assert f"`{remedy}`" in words and "--ssh-strict" in words
    assert not known.exists() or "hostb" not in known.read_text()
    assert a.run(remedy).returncode == 0
    assert run(a, *ONE_EACH, "--ssh-strict", "true").code == 0


def test_a_changed_host_key(cluster: Cluster) -> None:
    """The remedy that is given works; who wants no check gets none."""
    a, b = cluster
    assert run(a, *ONE_EACH, "true").code == 0
    b.sshd.new_host_key()
    with b.sshd.running():
        words = refused(a, *ONE_EACH)
        assert "host `hostb` has another key than last time" in words
        assert "--no-host-key-check" in words
        remedy = words.partition("forget the old key: `")[2].partition("`")[0]
        assert remedy.startswith("ssh-keygen ") and "[hostb]:12345" in remedy
        assert run(a, *ONE_EACH, "--no-host-key-check", "true").code == 0
        assert a.run(remedy).returncode == 0
        assert run(a, *ONE_EACH, "true").code == 0


def test_a_private_key_that_others_may_read(cluster: Cluster) -> None:
    a, _ = cluster
    folder = a.path("/root/.ssh")
    (folder / "id_ed25519").rename(folder / "open")
    (folder / "open").chmod(0o644)
    try:
        words = refused(a, *ONE_EACH, "-i", "/root/.ssh/open")
    finally:
        (folder / "open").chmod(0o600)
        (folder / "open").rename(folder / "id_ed25519")
    assert "the private key `/root/.ssh/open` for host `hostb`" in words
    assert "permissions 0644" in words and "`chmod 600 /root/.ssh/open`" in words


def test_a_private_key_that_is_not_there(cluster: Cluster) -> None:
    """ssh itself would pass over it, and log in with another key."""
    ended = run(cluster["hosta"], *ONE_EACH, "-i", "/root/.ssh/missing", "echo", "started")
    assert (ended.code, ended.output) == (2, "")
    assert "the file `/root/.ssh/missing` of `-i` does not exist" in ended.words()


def test_all_hosts_are_told_of_at_once(cluster: Cluster) -> None:
    words = refused(cluster["hosta"], "-np", "3", "-H", "hosta:1,nowhere:1,nothing:1")
    assert "2 hosts cannot be used" in words
    assert "`nowhere` does not resolve" in words and "`nothing` does not resolve" in words


# What is there.


def test_no_horovod_there(cluster: Cluster) -> None:
    a, b = cluster
    with b.hidden(str(Path(HOROVODRUN).parent)):
        words = refused(a, *ONE_EACH)
    assert f"host `hostb` has neither `{INTERPRETER}` nor `horovodrun` on its PATH" in words
    assert "python3 -m pip install " in words and "horovod==" not in words


def test_a_python_without_horovod(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    replaced = tmp_path / "bin"
    replaced.mkdir()
    name = Path(INTERPRETER).name
    (replaced / name).write_text(
        f"#!/bin/sh\necho {INTERPRETER}: Error while finding module specification for "
        "\"'horovod.runner.agent' (ModuleNotFoundError: No module named 'horovod')\" >&2\nexit 1\n"
    )
    (replaced / name).chmod(0o755)
    with b.replaced(str(Path(INTERPRETER).parent), str(replaced)):
        words = refused(a, *ONE_EACH)
    assert f"`{INTERPRETER}` on host `hostb` has no horovod" in words
    assert "and no `horovodrun` is on its PATH" in words
    assert f"{INTERPRETER} -m pip install " in words and "horovod==" not in words


def test_another_version(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    version = a.run([HOROVODRUN, "--version"]).stdout.split()[-1]
    replaced = tmp_path / "bin"
    replaced.mkdir()
    greeting = a.run([INTERPRETER, "-m", "horovod.runner.agent"]).stdout
    assert version in greeting, greeting
    older = replaced / Path(INTERPRETER).name
    older.write_text(f"#!/bin/sh\necho '{greeting.strip().replace(version, '0.1.9')}'\ncat\n")
    older.chmod(0o755)
    with b.replaced(str(Path(INTERPRETER).parent), str(replaced)):
        words = refused(a, *ONE_EACH)
    assert f"host `hostb` has horovod 0.1.9, this host has {version}" in words
    assert f"{INTERPRETER} -m pip install " in words and "horovod==" not in words


def test_a_script_that_is_missing_there(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print('ran')\n")
    with b.hidden(str(work)):
        words = refused(a, *ONE_EACH, "--", "python", "train.py", cwd=str(work))
    assert "host `hostb`" in words and "the script `train.py` does not exist there" in words
    inside = f"{work}/train.py".lstrip("/")
    assert f"tar -C / -cf - {inside} | ssh -p 12345 hostb tar -C / -xf -" in words


def test_a_script_that_differs(cluster: Cluster, tmp_path: Path) -> None:
    """No refusal, but users should not have to find that out."""
    a, b = cluster
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print('new')\n")
    with b.hidden(str(work)):
        b.path(str(work / "train.py")).write_text("print('old')\n")
        ended = run(a, *ONE_EACH, "python", "train.py", cwd=str(work))
    assert ended.code == 0, ended
    assert (
        "hostb" in ended.words() and "the script `train.py` is another one there" in ended.words()
    )
    assert "tar -C / -cf - " in ended.words()


def test_a_directory_that_is_missing_there(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    work = tmp_path / "work"
    work.mkdir()
    with b.hidden(str(tmp_path)):
        words = refused(a, *ONE_EACH, cwd=str(work))
    assert f"the working directory `{work}` does not exist there" in words
    assert "hostb" in words and f"mkdir -p {work}" in words


def test_a_command_that_is_missing_there(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"
    with b.hidden(str(tool.parent)):
        words = refused(a, *ONE_EACH, "--", "tool", env={"PATH": path})
    assert "the command `tool` is not in the PATH of the ranks there" in words
    assert "hostb" in words and "install it on hostb" in words


def test_a_clock_that_is_far_off(cluster: Cluster) -> None:
    if shutil.which("cc") is None:
        pytest.fail("not installed: cc; run scripts/hosts.sh packages")
    a, b = cluster
    with b.clock_ahead(7200):
        ended = run(a, *ONE_EACH, "true")
    assert ended.code == 0, ended
    assert "hostb" in ended.words()
    assert "the clock there is 120 min ahead of the one here" in ended.words()
    assert "on hostb: chronyc makestep" in ended.words()


def test_a_full_disk(cluster: Cluster, tmp_path: Path) -> None:
    """Where temporary files go, also the job's key, and the place to evade to."""
    a, b = cluster
    with (
        b.full(str(tmp_path)),
        b.full("/dev/shm"),
        b.sshd.running(f"SetEnv TMPDIR={tmp_path}"),
    ):
        words = refused(a, *ONE_EACH, cwd="/")
    assert "host `hostb`" in words
    assert "no space left" in words.lower() or "is full" in words
    assert "df -h" in words or "make room on hostb" in words


def test_a_full_working_directory(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    with b.full(str(tmp_path)):
        ended = run(a, *ONE_EACH, "true", cwd=str(tmp_path))
    assert ended.code == 0, ended
    assert f"the disk of `{tmp_path}` is full" in ended.words()
    assert "make room on hostb" in ended.words()


# What was asked for.


def test_too_few_slots(cluster: Cluster) -> None:
    words = refused(cluster["hosta"], "-np", "5", "-H", "hosta:2,hostb:2", code=2, within=5)
    assert "5 processes do not fit: the hosts have 4 slots" in words
    assert "lower `-np` to 4" in words


def test_a_host_that_is_listed_twice(cluster: Cluster) -> None:
    words = refused(cluster["hosta"], "-np", "3", "-H", "hostb:1,hosta:1,hostb:1", code=2, within=5)
    assert "host `hostb` is listed more than once" in words and "`hostb:2`" in words


def test_two_names_of_one_machine(cluster: Cluster) -> None:
    words = refused(cluster["hosta"], "-np", "3", "-H", "hosta:1,hostb:1,twin:1")
    assert "`hostb` and `twin` are one machine" in words
    assert "list it once with all its slots: hostb:2" in words
