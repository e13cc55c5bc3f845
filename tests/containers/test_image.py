"""The image: what is in it, what is not, and that its containers let each other in."""

from __future__ import annotations

import re
import shlex

import pytest
from docker_hosts import PORT, Containers
from engine import TREE, Engine

# What public recipes type to start the ssh server of a worker; each listens where it can be asked.
SERVERS = {
    "sshd": f"/usr/sbin/sshd -p {PORT} -D -e",
    "bash": f'bash -c "/usr/sbin/sshd -p {PORT}; sleep infinity"',
    "service": f'bash -c "echo Port {PORT} > /etc/ssh/sshd_config.d/port.conf;'
    ' service ssh start; sleep infinity"',
}
TRAIN = "horovodrun -np 2 python numpy/digits.py --epochs 2"


@pytest.mark.parametrize("shell", ["bash -c", "bash -lc", f"ssh -p {PORT} localhost"])
def test_has_horovod_in_every_kind_of_shell(containers: Containers, shell: str) -> None:
    question = "python -c 'import horovod.numpy' && horovodrun --version"
    done = containers.worker("node7").run(f'{shell} "{question}"')
    assert done.stdout.strip() == "0.29.0", done


def test_has_no_host_keys(engine: Engine, image: str) -> None:
    listed = engine.run("run", "--rm", "--entrypoint", "ls", image, "/etc/ssh").stdout
    assert "sshd_config.d" in listed
    assert "ssh_host" not in listed


@pytest.mark.parametrize("how", SERVERS)
def test_server_starts_however_it_is_typed(containers: Containers, how: str) -> None:
    containers.start("node8", *shlex.split(SERVERS[how]))
    done = containers.master("node7").run(f"ssh -o BatchMode=yes -p {PORT} node8 hostname")
    assert done.stdout.strip() == "node8", done.stderr


@pytest.mark.parametrize("options", ["--read-only", "--read-only --tmpfs /run --tmpfs /tmp"])
def test_read_only_containers_train_and_let_each_other_in(
    containers: Containers, options: str
) -> None:
    """The host key is in memory, and still each container's own."""
    keys = set()
    for host in ("node8", "node9"):
        worker = containers.worker(host, more=tuple(options.split()))
        assert worker.run("touch /etc/written").returncode != 0
        keys.add(worker.run("cat /run/horovod/*.pub /dev/horovod/*.pub").stdout)
    assert len(keys) == 2 and all(key.startswith("ssh-ed25519") for key in keys), keys
    master = containers.master("node7", more=tuple(options.split()))
    done = master.run(
        f"horovodrun -np 2 -H node8:1,node9:1 -p {PORT} --"
        f" python {TREE}/examples/numpy/digits.py --epochs 2"
    )
    assert done.returncode == 0, done.stderr
    assert "never seen in training" in done.stdout
    warned = "`/tmp`, the place for temporary files, is read-only there" in done.stderr
    assert warned == ("--tmpfs" not in options), done.stderr


@pytest.mark.parametrize("options", ["--user 1000", "--user 1000:1000 --read-only"])
def test_any_user_trains(engine: Engine, image: str, options: str) -> None:
    done = engine.run("run", "--rm", *options.split(), image, *TRAIN.split())
    assert "2 ranks" in done.stdout and "never seen in training" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("how", SERVERS)
def test_server_of_another_user_says_that_it_needs_root(
    engine: Engine, image: str, how: str
) -> None:
    command = shlex.split(SERVERS[how].replace("sleep infinity", "true"))
    done = engine.run("run", "--rm", "--user", "1000", image, *command, check=False)
    assert "sshd will not start: the container runs as user 1000 and sshd needs root" in done.stderr
    assert "horovodrun agent" in done.stderr


def test_lets_accounts_of_useradd_in_by_key(containers: Containers) -> None:
    worker = containers.worker("node8")
    made = worker.run(
        "useradd --create-home ann && mkdir ~ann/.ssh && cp ~/.ssh/authorized_keys ~ann/.ssh/"
    )
    assert made.returncode == 0, made.stderr
    assert worker.run("grep ^ann: /etc/shadow").stdout.startswith("ann:!")
    done = containers.master("node7").run(
        f"horovodrun -np 2 -H ann@node8:2 -p {PORT} bash -c 'echo I am $(id -un)'"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("I am ann") == 2


def test_expired_accounts_stay_outside(containers: Containers) -> None:
    worker = containers.worker("node8")
    worker.run(
        "useradd --create-home ann && mkdir ~ann/.ssh && cp ~/.ssh/authorized_keys ~ann/.ssh/"
        " && chage -E 0 ann"
    )
    job = f"horovodrun -np 1 -H ann@node8:1 -p {PORT} true"
    master = containers.master("node7")
    done = master.run(job)
    assert done.returncode == 1
    assert "the account has expired" in done.stderr
    # What is printed lets them in again.
    (remedy,) = re.findall("`(chage [^`]+)`", done.stderr)
    assert worker.run(remedy).returncode == 0
    assert master.run(job).returncode == 0


def test_starts_where_the_examples_are(engine: Engine, image: str) -> None:
    """Where upstream's image has them, so that its users' lines work as they are."""
    assert engine.run("run", "--rm", image, "pwd").stdout == "/horovod/examples\n"
    listed = engine.run("run", "--rm", image, "ls", "/horovod/examples/pytorch").stdout
    assert "pytorch_mnist.py" in listed.split()
    assert engine.run("run", "--rm", image, *TRAIN.split()).returncode == 0


def test_host_keys_differ_between_containers(containers: Containers) -> None:
    keys = {
        containers.worker(host)
        .run(f"ssh -p {PORT} localhost true; cat /etc/ssh/ssh_host_*.pub")
        .stdout
        for host in ("node7", "node8")
    }
    assert len(keys) == 2
    assert all(key.startswith("ssh-ed25519") for key in keys)


def test_workers_let_each_other_in(containers: Containers) -> None:
    hosts = ["node7", "node8", "node9"]
    running = [containers.worker(host) for host in hosts]
    for container in running:
        for host in hosts:
            done = container.run(f"ssh -o BatchMode=yes -p {PORT} {host} hostname")
            assert done.stdout.strip() == host, done.stderr


def test_strangers_stay_outside(containers: Containers) -> None:
    containers.worker("node8")
    master = containers.master("node7")
    master.run("ssh-keygen -q -t ed25519 -N '' -f /tmp/other")
    done = master.run(
        f"ssh -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityFile=/tmp/other -F none"
        f" -o StrictHostKeyChecking=no -p {PORT} node8 hostname"
    )
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr
