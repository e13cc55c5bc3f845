"""What a refusal tells people to type is typed here as it was printed, on the host it is meant for,
and the job that was refused runs."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from host import Host
from jobs import HOROVODRUN, INTERPRETER, assert_nothing_left, kill, run
from typed import ECHO, ONE_EACH, command, copying, refused, runs, types

PASSWORD = "correct horse"
VENV = Path(INTERPRETER).parents[1]


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


# Horovod that is not there.


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with pip and what Horovod depends on, but no Horovod."""
    direct_url = importlib.metadata.distribution("horovod").read_text("direct_url.json") or "{}"
    if not json.loads(direct_url).get("url", "").endswith(".whl"):
        pytest.skip("horovod was not installed from a wheel")
    venv = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=120)
    (packages,) = venv.glob("lib/python*/site-packages")
    needed = importlib.metadata.distribution("cloudpickle")
    for name in {file.parts[0] for file in needed.files or ()}:
        shutil.copytree(needed.locate_file(name), packages / name)
    return venv


def copied(bare: Path, target: Path) -> Path:
    shutil.copytree(bare, target, symlinks=True)
    return target


def with_path(host: Host, venv: Path) -> contextlib.AbstractContextManager[None]:
    """Who comes by ssh finds the programs of a Python on the PATH."""
    return host.sshd.running(f"SetEnv PATH={venv}/bin:/usr/bin:/bin")


def test_a_host_without_horovod_is_sent_the_wheel(
    cluster: Cluster, bare: Path, tmp_path: Path
) -> None:
    a, b = cluster
    venv = copied(bare, tmp_path / "venv")
    # The name of its only Python is that of the first one on the PATH.
    with b.hidden(str(Path(HOROVODRUN).parent)), with_path(b, venv):
        words = refused(a, *ONE_EACH, *ECHO)
        assert f"host `hostb` has neither `{INTERPRETER}` nor `horovodrun` on its PATH" in words
        assert "pip install horovod" not in words
        types(a, command(words, "ssh "))
        runs(a, *ONE_EACH, *ECHO)


def test_a_python_without_horovod_is_sent_the_wheel(
    cluster: Cluster, bare: Path, tmp_path: Path
) -> None:
    a, b = cluster
    with b.replaced(str(VENV), str(copied(bare, tmp_path / "venv"))):
        words = refused(a, *ONE_EACH, *ECHO)
        both = f"`{INTERPRETER}` on host `hostb` has no horovod, and no `horovodrun` is on its PATH"
        assert both in words
        line = command(words, "ssh ")
        assert line.startswith("ssh -p 12345 hostb ") and f"{INTERPRETER} -m pip" in line
        types(a, line)
        runs(a, *ONE_EACH, *ECHO)


def test_horovod_on_the_path_does_where_the_python_has_none(
    cluster: Cluster, bare: Path, tmp_path: Path
) -> None:
    """Nothing has to be typed: the second of the two places has it."""
    a, b = cluster
    other = copied(bare, tmp_path / "other")
    direct_url = importlib.metadata.distribution("horovod").read_text("direct_url.json")
    wheel = json.loads(direct_url or "{}")["url"].removeprefix("file://")
    install = [other / "bin/python", "-m", "pip", "install", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, timeout=120, capture_output=True)
    # The scripts of a copied environment name the original's Python; pip names its own.
    assert str(other) in (other / "bin/horovodrun").read_text()
    with b.replaced(str(VENV), str(copied(bare, tmp_path / "venv"))), with_path(b, other):
        assert runs(a, *ONE_EACH, *ECHO) == ""


def test_another_version_on_the_path_is_told_of_and_mended(
    cluster: Cluster, bare: Path, tmp_path: Path
) -> None:
    a, b = cluster
    greeting = a.run([INTERPRETER, "-m", "horovod.runner.agent"]).stdout.strip()
    version = importlib.metadata.version("horovod")
    old = tmp_path / "old/bin/horovodrun"
    old.parent.mkdir(parents=True)
    old.write_text(f"#!/bin/sh\necho '{greeting.replace(version, '0.1.9')}'\ncat\n")
    old.chmod(0o755)
    bare_here = copied(bare, tmp_path / "venv")
    with b.replaced(str(VENV), str(bare_here)), with_path(b, old.parents[1]):
        words = refused(a, *ONE_EACH, *ECHO)
        assert f"`{INTERPRETER}` on host `hostb` has no horovod; with the `horovodrun`" in words
        assert f"on its PATH: host `hostb` has horovod 0.1.9, this host has {version}" in words
        types(a, command(words, "ssh "))
        runs(a, *ONE_EACH, *ECHO)


def test_another_version_is_replaced_by_the_wheel(
    cluster: Cluster, bare: Path, tmp_path: Path
) -> None:
    a, b = cluster
    greeting = a.run([INTERPRETER, "-m", "horovod.runner.agent"]).stdout.strip()
    version = importlib.metadata.version("horovod")
    venv = copied(bare, tmp_path / "venv")
    (packages,) = venv.glob("lib/python*/site-packages")
    old = packages / "horovod/runner"
    old.mkdir(parents=True)
    (old / "__init__.py").touch()
    (packages / "horovod/__init__.py").touch()
    (old / "agent.py").write_text(f"print({greeting.replace(version, '0.1.9')!r}, flush=True)\n")
    with b.replaced(str(VENV), str(venv)):
        words = refused(a, *ONE_EACH, *ECHO)
        assert f"host `hostb` has horovod 0.1.9, this host has {version}" in words
        types(a, command(words, "ssh "))
        runs(a, *ONE_EACH, *ECHO)


# Files that are not there.


@pytest.fixture
def work(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """A directory with a space in its name and a script, which the other host has empty."""
    work = tmp_path / "my work"
    (work / "sub").mkdir(parents=True)
    (work / "sub/train.py").write_text("print('ran')\n")
    with cluster["hostb"].hidden(str(work)):
        yield work


@pytest.mark.parametrize("name", ["sub/train.py", "../my work/sub/train.py"])
def test_a_missing_script_is_copied(cluster: Cluster, work: Path, name: str) -> None:
    """Also where nothing but the port, the key and the user that the job was given opens."""
    a, _ = cluster
    folder = a.path("/root/.ssh")
    (folder / "id_ed25519").rename(folder / "other key")
    hosts = ("-np", "2", "-H", "hosta:1,root@hostb:1", "-i", "/root/.ssh/other key")
    try:
        words = refused(a, *hosts, "python", name, cwd=str(work))
        line = copying(words)
        assert "ssh -p 12345 -i '/root/.ssh/other key' root@hostb tar " in line, words
        assert "rsync" not in words
        types(a, line)
        runs(a, *hosts, "python", name, cwd=str(work))
    finally:
        (folder / "other key").rename(folder / "id_ed25519")


def test_a_script_that_differs_is_copied(cluster: Cluster, work: Path) -> None:
    a, b = cluster
    there = b.path(str(work / "sub/train.py"))
    there.parent.mkdir()
    there.write_text("print('ran', 'long ago')\n")
    job = (*ONE_EACH, "python", "sub/train.py")
    words = runs(a, *job, cwd=str(work))
    assert "the script `sub/train.py` is another one there" in words
    types(a, copying(words))
    assert runs(a, *job, cwd=str(work)) == ""


def test_the_doctor_prints_lines_that_can_be_typed(cluster: Cluster, work: Path) -> None:
    a, _ = cluster
    doctor = [HOROVODRUN, "doctor", *ONE_EACH[2:], "-p", "12345", "python3", "sub/train.py"]
    seen = a.run(doctor, timeout=90, cwd=str(work))
    assert "the script `sub/train.py` does not exist there" in seen.stdout
    types(a, seen.stdout.partition("copy it:\n")[2].partition("\n")[0].strip())
    seen = a.run(doctor, timeout=90, cwd=str(work))
    assert seen.returncode == 0 and "train.py" not in seen.stdout, seen.stdout


def doctor_finds(a: Host, work: Path, *command: str) -> tuple[str, list[str]]:
    """What the doctor says in one line, and the lines that it tells to type for copies."""
    words = [HOROVODRUN, "doctor", *ONE_EACH[2:], "-p", "12345", *command]
    seen = a.run(words, timeout=90, cwd=str(work))
    after = seen.stdout.split("copy it:\n")[1:]
    return " ".join(seen.stdout.split()), [part.partition("\n")[0].strip() for part in after]


def test_modules_that_the_doctor_misses_are_copied(cluster: Cluster, work: Path) -> None:
    """One that is another there, and one that is not there."""
    a, b = cluster
    (work / "model").mkdir()
    (work / "model/net.py").write_text("# the one here\n")
    (work / "data.py").touch()
    (work / "train.py").write_text("import model.net\nimport data\n")
    there = b.path(str(work))
    (there / "model").mkdir()
    (there / "model/net.py").write_text("# the one there\n")
    (there / "train.py").write_text((work / "train.py").read_text())
    said, lines = doctor_finds(a, work, "python3", "train.py")
    assert "`model/net.py`, which `train.py` imports, is another one there" in said, said
    assert "`data.py`, which `train.py` imports, does not exist there" in said, said
    assert len(lines) == 2, said
    for line in lines:
        types(a, line)
    said, lines = doctor_finds(a, work, "python3", "train.py")
    assert "imports" not in said and lines == [], said


@pytest.mark.parametrize("there", ["another", "missing"])
def test_a_module_of_python_m_is_copied(cluster: Cluster, work: Path, there: str) -> None:
    a, b = cluster
    (work / "package").mkdir()
    (work / "package/train.py").write_text("print('ran')\n")
    if there == "another":
        b.path(str(work / "package")).mkdir()
        b.path(str(work / "package/train.py")).write_text("print('ran', 'long ago')\n")
    command = ("python3", "-m", "package.train")
    said, lines = doctor_finds(a, work, *command)
    assert "`package/train.py`" in said and len(lines) == 1, said
    types(a, lines[0])
    said, lines = doctor_finds(a, work, *command)
    assert "package/train.py" not in said and lines == [], said
    assert runs(a, *ONE_EACH, *command, cwd=str(work)) == ""


def test_a_missing_directory_is_made(cluster: Cluster, tmp_path: Path) -> None:
    a, b = cluster
    work = tmp_path / "it's here"
    work.mkdir()
    with b.hidden(str(tmp_path)):
        words = refused(a, *ONE_EACH, *ECHO, cwd=str(work))
        types(a, copying(words))
        runs(a, *ONE_EACH, *ECHO, cwd=str(work))


def test_a_program_is_made_executable(cluster: Cluster, work: Path) -> None:
    a, b = cluster
    (work / "sub/tool").write_text("#!/bin/sh\necho ran\n")
    (work / "sub/tool").chmod(0o755)
    b.path(str(work / "sub")).mkdir()
    b.path(str(work / "sub/tool")).write_text("#!/bin/sh\necho ran\n")
    words = refused(a, *ONE_EACH, "sub/tool", cwd=str(work))
    assert "may not be executed there" in words
    types(a, re.split(r"; (?=ssh )", words)[-1])
    runs(a, *ONE_EACH, "sub/tool", cwd=str(work))


# Keys and accounts.


def test_an_unknown_host_key_with_a_read_only_ssh_folder(cluster: Cluster) -> None:
    a, _ = cluster
    a.path("/root/.ssh/known_hosts").unlink(missing_ok=True)
    everywhere = a.path("/etc/ssh/ssh_known_hosts")
    with a.read_only("/root/.ssh"):
        words = refused(a, *ONE_EACH, "--ssh-strict", *ECHO)
        types(a, command(words, "ssh-keyscan "))
        runs(a, *ONE_EACH, "--ssh-strict", *ECHO)
    everywhere.unlink()


def test_a_changed_host_key_with_a_read_only_ssh_folder(cluster: Cluster) -> None:
    a, b = cluster
    runs(a, *ONE_EACH, *ECHO)
    b.sshd.new_host_key()
    with b.sshd.running(), a.read_only("/root/.ssh"):
        words = refused(a, *ONE_EACH, *ECHO)
        assert "the file with the old one is read-only" in words
        types(a, command(words, "ssh-keyscan "))
        runs(a, *ONE_EACH, *ECHO)
    a.path("/etc/ssh/ssh_known_hosts").unlink()
    a.path("/root/.ssh/known_hosts").unlink()


def test_a_host_key_without_a_file_that_can_be_written(cluster: Cluster) -> None:
    """No line that cannot work is shown."""
    a, _ = cluster
    a.path("/root/.ssh/known_hosts").unlink(missing_ok=True)
    with a.read_only("/root/.ssh"), a.read_only("/etc/ssh"):
        words = refused(a, *ONE_EACH, "--ssh-strict", *ECHO)
        assert "none of ssh's files of known hosts can be written here" in words
        assert "ssh-keyscan" not in words and "leave out --ssh-strict" in words
        runs(a, *ONE_EACH, *ECHO)


@pytest.fixture
def password(cluster: Cluster, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A server that takes passwords and knows no key yet; variables that answer its question."""
    b = cluster["hostb"]
    answer = tmp_path / "answer"
    answer.write_text(f"#!/bin/sh\necho '{PASSWORD}'\n")
    answer.chmod(0o755)
    hashed = b.run(["openssl", "passwd", "-6", PASSWORD]).stdout.strip()
    keys = b.path("/root/.ssh/authorized_keys")
    before = keys.read_text()
    keys.write_text("")
    types(b, f"usermod -p '{hashed}' root")
    with b.sshd.running("PasswordAuthentication yes"):
        yield {"SSH_ASKPASS": str(answer), "SSH_ASKPASS_REQUIRE": "force"}
    types(b, "usermod -p '*' root")
    keys.write_text(before)


def test_a_key_is_added_where_nothing_else_opens(cluster: Cluster) -> None:
    a, b = cluster
    keys = b.path("/root/.ssh/authorized_keys")
    before = keys.read_text()
    keys.write_text("")
    try:
        words = refused(a, *ONE_EACH, *ECHO)
        assert "host `hostb` takes none of your keys for user `root`" in words
        types(b, command(words, "mkdir "))
        runs(a, *ONE_EACH, *ECHO)
    finally:
        keys.write_text(before)


def test_a_key_is_left_where_a_password_is_wanted(
    cluster: Cluster, password: dict[str, str]
) -> None:
    a, _ = cluster
    words = refused(a, *ONE_EACH, *ECHO)
    types(a, command(words, "ssh-copy-id "), env=password)
    runs(a, *ONE_EACH, *ECHO)


def test_a_missing_private_key_is_made(cluster: Cluster, password: dict[str, str]) -> None:
    a, _ = cluster
    job = (*ONE_EACH, "-i", "/root/.ssh/missing", *ECHO)
    types(a, command(refused(a, *job), "ssh-keygen "))
    types(a, command(refused(a, *job), "ssh-copy-id "), env=password)
    runs(a, *job)


def test_a_private_key_that_others_may_read_is_closed(cluster: Cluster) -> None:
    a, _ = cluster
    folder = a.path("/root/.ssh")
    (folder / "id_ed25519").rename(folder / "open key")
    (folder / "open key").chmod(0o644)
    job = (*ONE_EACH, "-i", "/root/.ssh/open key", *ECHO)
    try:
        types(a, command(refused(a, *job), "chmod "))
        runs(a, *job)
    finally:
        (folder / "open key").rename(folder / "id_ed25519")


def test_an_account_of_useradd_is_opened(cluster: Cluster) -> None:
    """The job itself is left to tests/containers: this Horovod may be where only root can go."""
    a, b = cluster
    types(b, "useradd --create-home --home-dir /run/ann --shell /bin/sh ann")
    types(b, "cp -r ~/.ssh /run/ann/ && chown -R ann /run/ann/.ssh")
    job = ("-np", "2", "-H", "ann@hostb:2", *ECHO)
    words = refused(a, *job, cwd="/")
    assert "takes none of your keys for user `ann`" in words
    types(b, command(words, "usermod "))
    assert a.ssh("ann@hostb", "id -un").stdout == "ann\n"
    assert "takes none of your keys" not in run(a, *job, cwd="/").words()


def test_a_server_is_started_where_none_listens(cluster: Cluster) -> None:
    a, b = cluster
    words = refused(a, *ONE_EACH, *ECHO, port=12399)
    types(b, command(words, "/usr/sbin/sshd "))
    try:
        runs(a, *ONE_EACH, *ECHO, port=12399)
    finally:
        kill(*(one.pid for one in b.processes() if "/usr/sbin/sshd -p 12399" in one.command))


# What was asked for.


def test_numbers_that_fit_are_told(cluster: Cluster) -> None:
    a, _ = cluster
    words = refused(a, "-np", "5", "-H", "hosta:1,hostb:1", *ECHO)
    most = re.search(r"lower `-np` to (\d+)", words)
    assert most, words
    runs(a, "-np", most[1], "-H", "hosta:1,hostb:1", *ECHO)


# Firewalls.


@contextlib.contextmanager
def wall(host: Host) -> Iterator[None]:
    """A host behind ufw, which lets ssh in and nothing else."""
    try:
        # A reset keeps the old rules, under names that two of a second have in common.
        types(host, "rm -f /etc/ufw/*.rules.*; ufw --force reset")
        types(host, "ufw default deny incoming && ufw allow 12345/tcp")
        types(host, "ufw --force enable")
        yield
    finally:
        types(host, "ufw --force disable; rm -f /etc/ufw/*.rules.*; ufw --force reset")


@pytest.fixture
def walled(cluster: Cluster) -> Iterator[Host]:
    """The second host behind a firewall."""
    _, b = cluster
    with wall(b):
        yield b


def test_ports_are_let_through_a_firewall(cluster: Cluster, walled: Host) -> None:
    a, _ = cluster
    words = refused(a, *ONE_EACH, *ECHO)
    types(walled, command(words, "ufw allow "))
    ports = command(words, "--port-range ").split()
    runs(a, *ONE_EACH, *ports, *ECHO)


def test_the_ports_of_a_range_are_let_through_a_firewall(cluster: Cluster, walled: Host) -> None:
    """Nothing is added to the job's own command."""
    a, _ = cluster
    job = (*ONE_EACH, "--port-range", "23000-23019", *ECHO)
    words = refused(a, *job)
    assert "the ports 23000-23019 of --port-range are blocked there" in words
    types(walled, command(words, "ufw allow "))
    runs(a, *job)


def test_ports_are_let_through_both_firewalls(cluster: Cluster, walled: Host) -> None:
    a, b = cluster
    with wall(a):
        words = refused(a, *ONE_EACH, *ECHO)
        assert "no host reaches another: a firewall on each of them" in words
        for host in (a, b):
            types(host, command(words, "ufw allow "))
        runs(a, *ONE_EACH, *command(words, "--port-range ").split(), *ECHO)
