"""What a refusal tells people to type, typed in the container it is meant for: these have no rsync,
a Python that belongs to the distribution, and keys that are mounted read-only."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_hosts import PORT, Container, Containers
from engine import TREE, Engine, copy_image

HOSTS = f"-H node7:1,node8:1 -p {PORT}"


def refused(master: Container, command: str) -> str:
    done = master.run(command)
    assert done.returncode == 1, done
    return done.stderr.strip()


def command(words: str, beginning: str) -> str:
    """The command that begins like this, out of its backticks."""
    found = [part for part in re.findall(r"`([^`]+)`", words) if part.startswith(beginning)]
    assert len(found) == 1, words
    return found[0]


def types(container: Container, line: str) -> None:
    done = container.run(line, timeout=120)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"


def test_a_script_is_copied_without_rsync(containers: Containers) -> None:
    worker = containers.worker("node8")
    master = containers.master("node7")
    types(master, "! command -v rsync && mkdir /job && echo 'print(\"ran\")' > /job/train.py")
    job = f"cd /job && horovodrun -np 2 {HOSTS} python train.py"
    words = refused(master, job)
    types(master, words.rpartition("make it: ")[2])
    words = refused(master, job)
    assert "the script `train.py` does not exist there" in words
    types(master, words.rpartition("copy it: ")[2])
    done = master.run(job)
    assert done.returncode == 0 and done.stdout.count("ran") == 2, done
    assert worker.run("cat /job/train.py").stdout == 'print("ran")\n'


def test_horovod_is_sent_from_the_image(containers: Containers) -> None:
    """Into a Python that takes packages only from its distribution, without an index."""
    worker = containers.worker("node8")
    master = containers.master("node7")
    types(worker, "pip uninstall --yes --break-system-packages horovod")
    job = f"horovodrun -np 2 {HOSTS} python {TREE}/examples/numpy/digits.py --epochs 1"
    words = refused(master, job)
    assert "on host `node8` has no horovod, and no `horovodrun` is on its PATH" in words
    types(master, command(words, "ssh "))
    done = master.run(job)
    assert done.returncode == 0 and "2 ranks" in done.stdout, done


def test_a_worker_that_was_made_anew_is_known_again(containers: Containers) -> None:
    containers.worker("node8")
    master = containers.master("node7")
    job = f"horovodrun -np 2 {HOSTS} true"
    assert master.run(job).returncode == 0
    containers.engine.run("rm", "--force", f"{containers.prefix}-node8")
    containers.worker("node8")
    words = refused(master, job)
    assert "host `node8` has another key than last time" in words
    types(master, command(words, "ssh-keygen "))
    assert master.run(job).returncode == 0


def test_a_strict_master_learns_a_key(containers: Containers) -> None:
    containers.worker("node8")
    master = containers.master("node7")
    job = f"horovodrun -np 2 {HOSTS} --ssh-strict true"
    words = refused(master, job)
    types(master, command(words, "ssh-keyscan "))
    assert master.run(job).returncode == 0


def test_a_user_without_an_account_gets_one(containers: Containers) -> None:
    """Without an account ssh does not even begin; keys are another matter."""
    containers.worker("node8")
    master = containers.master("node7", more=("--user", "1000"))
    job = f"horovodrun -np 1 -H node8:1 -p {PORT} true"
    words = refused(master, job)
    assert "for user 1000, who has no account on this machine" in words
    line = command(words, "useradd ")
    containers.engine.run("exec", "--user", "0", master.name, "bash", "-c", line)
    assert "takes none of your keys for user `horovod`" in refused(master, job)


def test_unpublished_ports_are_told_from_a_firewall(containers: Containers) -> None:
    """A container of another machine, reached at a port of that machine and only there."""
    engine, other = containers.engine, f"{containers.prefix}-other"
    engine.run("network", "create", other)
    apart = ("--network", other, "--hostname", "node8", "--publish", str(PORT))
    worker = containers.worker("node8", options=apart)
    master = containers.master("node7")
    form = "{{(index .IPAM.Config 0).Gateway}}"
    machine = engine.run("network", "inspect", "--format", form, containers.prefix).stdout.strip()
    port = engine.run("port", worker.name, str(PORT)).stdout.split()[0].rpartition(":")[2]
    words = refused(master, f"horovodrun -np 2 -H node7:1,{machine}:1 -p {port} true")
    # Without the ends of lines, whose places depend on the lengths of addresses.
    told = " ".join(words.split()).partition(f"no host reaches `{machine}`: ")[2]
    assert told.startswith(f"it is a container behind published ports, reached at {machine}"), words
    assert f"--advertise {machine}={machine}`" in told and "ufw" not in told, words


@pytest.fixture
def apart(
    engine: Engine, image: str, machines: dict[str, Engine], tmp_path: Path
) -> Iterator[tuple[Containers, Containers]]:
    """Containers of two machines that let each other in."""
    copy_image(engine, image, machines["node8"], "horovod")
    with (
        Containers(machines["node7"], "horovod", tmp_path / "node7") as first,
        Containers(machines["node8"], "horovod", tmp_path / "node8") as second,
    ):
        first.keys = second.keys
        yield first, second


def test_the_ports_of_a_container_are_published(apart: tuple[Containers, Containers]) -> None:
    """The container is started anew with the option that was printed, and the job with its own."""
    first, second = apart
    master = first.master("node7", options=("--network", "host"))
    known = ("--hostname", "node8", "--publish", f"{PORT}:{PORT}")
    worker = second.worker("node8", options=known)
    train = f"python {TREE}/examples/numpy/digits.py --epochs 1"
    job = f"horovodrun -np 2 -H node7:1,node8:1 -p {PORT} --no-host-key-check"
    words = " ".join(refused(master, f"{job} {train}").split())
    publish = command(words, "docker run -p ").removeprefix("docker run ").removesuffix(" ...")
    options = command(words, "--port-range ")
    second.engine.run("rm", "--force", worker.name)
    second.worker("node8", options=(*known, *publish.split()))
    done = master.run(f"{job} {options} {train}")
    assert done.returncode == 0 and "2 ranks" in done.stdout, done


def test_a_container_gets_the_limits_it_is_told(containers: Containers) -> None:
    """The options that are printed are added where the container is started. None gets more than
    its machine has, which is little where that is a container itself."""
    few = ("--ulimit", "nofile=100:100", "--shm-size=16m")
    containers.worker("node8", more=few)
    master = containers.master("node7")
    doctor = f"horovodrun doctor {HOSTS}"
    words = " ".join(master.run(doctor).stdout.split())
    assert "a rank may have 100 files open there" in words, words
    options = re.findall(r"start the container with (--\S+(?: \w+=\d+)?)", words)
    assert len(options) == 2, words
    containers.engine.run("rm", "--force", f"{containers.prefix}-node8")
    (files,) = (int(option.partition("nofile=")[2]) for option in options if "nofile" in option)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    told = " ".join(option.rstrip(",") for option in options)
    more = told.replace(f"nofile={files}", f"nofile={min(files, most)}").split()
    containers.worker("node8", more=tuple(more))
    words = master.run(f"{doctor} --no-host-key-check").stdout
    assert "node8" in words and "start the container with" not in words, words


def test_a_read_only_container_gets_a_place_for_temporary_files(containers: Containers) -> None:
    containers.worker("node8", more=("--read-only",))
    master = containers.master("node7")
    job = f"horovodrun -np 2 {HOSTS} --no-host-key-check true"
    words = " ".join(master.run(job).stderr.split())
    option = re.search(r"start the container with (--tmpfs /tmp)\b", words)
    assert option, words
    containers.engine.run("rm", "--force", f"{containers.prefix}-node8")
    containers.worker("node8", more=("--read-only", *option[1].split()))
    done = master.run(job)
    assert (done.returncode, done.stderr) == (0, ""), done
