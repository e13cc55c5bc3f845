"""What is said of ssh's own configuration, of servers and of accounts is typed, and the job runs.
The lines that copy files, keys and Horovod itself are in `test_remedies.py`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from host import Host
from jobs import INTERPRETER, assert_nothing_left, kill, run
from typed import ECHO, ONE_EACH, command, refused, runs, types

JOB = (*ONE_EACH, *ECHO)


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


# This side.


@pytest.fixture
def config(cluster: Cluster) -> Iterator[Path]:
    """The user's own configuration of ssh, which the test writes."""
    file = cluster["hosta"].path("/root/.ssh/config")
    yield file
    file.unlink(missing_ok=True)


def test_a_configuration_that_others_may_write_is_closed(cluster: Cluster, config: Path) -> None:
    a, _ = cluster
    config.write_text("Host hostb\n")
    config.chmod(0o666)
    types(a, command(refused(a, *JOB), "chmod "))
    runs(a, *JOB)


def test_a_bad_line_of_the_configuration_is_removed(cluster: Cluster, config: Path) -> None:
    a, _ = cluster
    config.write_text("Host hostb\nNonsense yes\n")
    config.chmod(0o600)
    words = refused(a, *JOB)
    bad = re.search(r"`(\S+): line (\d+): Bad configuration option: nonsense`; mend", words)
    assert bad, words
    types(a, f"sed -i {bad[2]}d {bad[1]}")
    runs(a, *JOB)


def test_an_agent_that_offers_too_many_keys_is_emptied(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    agent = {"SSH_AUTH_SOCK": str(tmp_path / "agent")}
    started = types(a, f"ssh-agent -a {agent['SSH_AUTH_SOCK']}")
    try:
        for name in ("first", "second"):
            key = tmp_path / name
            types(a, f"ssh-keygen -q -t ed25519 -N '' -f {key} && ssh-add {key}", env=agent)
        with b.sshd.running("MaxAuthTries 2"):
            words = refused(a, *JOB, env=agent)
            assert "more keys were offered than it tries" in words
            types(a, command(words, "ssh-add "), env=agent)
            runs(a, *JOB, env=agent)
    finally:
        found = re.search(r"Agent pid (\d+)", started.stdout)
        assert found
        kill(int(found[1]))


def test_an_algorithm_that_the_host_offers_is_allowed(cluster: Cluster, config: Path) -> None:
    a, b = cluster
    with b.sshd.running("KexAlgorithms diffie-hellman-group14-sha1"):
        words = refused(a, *JOB)
        assert "have no key exchange method in common" in words
        offer = words.partition("it offers `")[2].partition("`")[0]
        config.write_text(f"Host hostb\n    KexAlgorithms +{offer.split(',')[0]}\n")
        config.chmod(0o600)
        runs(a, *JOB)


# The server.


def test_a_server_is_started_where_another_service_listens(cluster: Cluster) -> None:
    a, b = cluster
    other = b.popen([INTERPRETER, "-u", "-c", SERVICE.format(12399)])
    b.sshd.stop()
    try:
        await_port(b, 12399)
        words = refused(a, *JOB, port=12399)
        assert "what listens at port 12399 of host `hostb` is not an ssh server" in words
        line = command(words, "/usr/sbin/sshd ")
        types(b, line)
        runs(a, *JOB, port=int(line.rpartition(" ")[2]))
    finally:
        kill(*(one.pid for one in b.processes() if "/usr/sbin/sshd -p" in one.command))
        other.kill()
        other.wait()
        b.sshd.start()


SERVICE = """
import socket
server = socket.create_server(("", {}))
while True:
    caller, _ = server.accept()
    caller.sendall(bytes(8))
    caller.recv(1000)
"""


def await_port(host: Host, port: int) -> None:
    types(
        host, f"for _ in $(seq 100); do ss -Hltn | grep -q :{port} && exit; sleep 0.1; done; false"
    )


def test_a_server_takes_more_logins_at_once(cluster: Cluster) -> None:
    """One that never logs in is enough for a server that lets one in at a time."""
    a, b = cluster
    types(b, "sed -i 's/^MaxStartups .*/MaxStartups 1/' /etc/ssh/sshd_config")
    try:
        with b.sshd.running(), silent_login(a, b):
            words = refused(a, *JOB)
            assert "closed the connection at port 12345 before the login" in words
            assert "raise `MaxStartups` in its sshd_config" in words
    finally:
        types(b, "sed -i 's/^MaxStartups .*/MaxStartups 100/' /etc/ssh/sshd_config")
    with b.sshd.running(), silent_login(a, b):
        runs(a, *JOB)


@contextlib.contextmanager
def silent_login(a: Host, b: Host) -> Iterator[None]:
    script = f"import socket, sys; s = socket.create_connection(('{b.address()}', 12345)); "
    script += "s.recv(1); print('there', flush=True); sys.stdin.read()"
    caller = a.popen([INTERPRETER, "-c", script], stdin=-1, stdout=-1)
    assert caller.stdin and caller.stdout and caller.stdout.readline() == "there\n"
    try:
        yield
    finally:
        caller.stdin.close()
        caller.wait(10)


def test_a_server_allows_a_session(cluster: Cluster) -> None:
    a, b = cluster
    with b.sshd.running("MaxSessions 0"):
        words = refused(a, *JOB)
        setting = re.search(r"in its sshd_config `(MaxSessions)` must be at least (1)", words)
        assert setting, words
    with b.sshd.running(f"{setting[1]} {setting[2]}"):
        runs(a, *JOB)


# Accounts. What runs there may be where only root can go, so these look no further than the login.


@pytest.fixture
def account(cluster: Cluster) -> Iterator[str]:
    """A user of the second host that the key of the first one's root opens."""
    b = cluster["hostb"]
    types(b, "useradd --create-home --home-dir /run/bob --password '*' --shell /bin/sh bob")
    types(b, "cp -r ~/.ssh /run/bob/ && chown -R bob /run/bob/.ssh")
    yield "bob"
    types(b, "userdel --remove bob")


def test_an_account_gets_a_login_shell(cluster: Cluster, account: str) -> None:
    a, b = cluster
    types(b, f"usermod -s /usr/sbin/nologin {account}")
    job = ("-np", "1", "-H", f"{account}@hostb:1", *ECHO)
    words = refused(a, *job, cwd="/")
    assert "the account has no login shell" in words
    types(b, command(words, "usermod "))
    assert a.ssh(f"{account}@hostb", "id -un").stdout == f"{account}\n"
    assert "no login shell" not in run(a, *job, cwd="/").words()


def test_the_user_that_an_image_names_is_taken(cluster: Cluster, account: str) -> None:
    a, b = cluster
    keys = b.path("/root/.ssh/authorized_keys")
    before = keys.read_text()
    told = f'Please login as the user \\"{account}\\" rather than the user \\"root\\".'
    keys.write_text(f"command=\"echo '{told}'\" {before}")
    try:
        words = refused(a, *JOB)
        option = command(words, "-H ").replace("SLOTS", "1")
        assert option == f"-H {account}@hostb:1"
        again = run(a, "-np", "1", *option.split(), *ECHO, cwd="/").words()
        assert "lets another user in" not in again
    finally:
        keys.write_text(before)


def test_a_forced_command_is_removed(cluster: Cluster) -> None:
    a, b = cluster
    keys = b.path("/root/.ssh/authorized_keys")
    before = keys.read_text()
    keys.write_text(f'command="true" {before}')
    try:
        words = refused(a, *JOB)
        assert "look there for `command=` before your key in ~/.ssh/authorized_keys" in words
        question = command(words, "ssh ")
        assert "ready" not in a.run(question).stdout
        types(b, "sed -i 's/^command=\"true\" //' ~/.ssh/authorized_keys")
        assert types(a, question).stdout == "ready\n"
        runs(a, *JOB)
    finally:
        keys.write_text(before)
