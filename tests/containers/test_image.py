"""The image: what is in it, what is not, and that its containers let each other in."""

from __future__ import annotations

import pytest
from docker_hosts import PORT, Containers
from engine import TREE


@pytest.mark.parametrize("shell", ["bash -c", "bash -lc", f"ssh -p {PORT} localhost"])
def test_has_horovod_in_every_kind_of_shell(containers: Containers, shell: str) -> None:
    question = "python -c 'import horovod.numpy' && horovodrun --version"
    done = containers.worker("node7").run(f'{shell} "{question}"')
    assert done.stdout.strip() == "0.29.0", done


def test_has_no_host_keys(containers: Containers) -> None:
    listed = containers.master("node7").run("ls /etc/ssh").stdout
    assert "sshd_config.d" in listed
    assert "ssh_host" not in listed


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


def test_trains_on_one_host(containers: Containers) -> None:
    done = containers.master("node7").run(
        f"horovodrun -np 2 python {TREE}/examples/numpy/digits.py --epochs 3", timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "2 ranks" in done.stdout
    assert "never seen in training" in done.stdout
