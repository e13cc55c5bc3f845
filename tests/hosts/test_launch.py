"""Jobs on several hosts that go well: where ranks are, what they are told, what comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import TIMEOUT, Job, assert_nothing_left, run
from sshd import PORT

TWO_EACH = ("-np", "4", "-H", "hosta:2,hostb:2")
ONE_EACH = ("-np", "2", "-H", "hosta:1,hostb:1")
LAN = "10.231.0.0/24"
SUM = """
import os, horovod.numpy as hvd
hvd.init()
total = hvd.allreduce(float(hvd.rank() + 1), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()} on {os.uname().nodename}: {float(total)}")
"""


@pytest.fixture(scope="module")
def cluster(namespaces: None) -> Iterator[Cluster]:
    """Three hosts, so that the launcher's own can be one without ranks."""
    with Cluster(["hosta", "hostb", "hostc"]) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


def test_ranks_are_numbered_host_by_host(cluster: Cluster) -> None:
    line = "echo $(hostname) $HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE"
    line += " $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE $HOROVOD_HOSTNAME"
    line += " $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK"
    ended = run(cluster["hosta"], "-np", "5", "-H", "hosta:2,hostb:2,hostc:2", "bash", "-c", line)
    assert ended.code == 0, ended
    assert ended.lines() == [
        "[0]<stdout>:hosta 0/5 0/2 0/3 hosta 0/5 0",
        "[1]<stdout>:hosta 1/5 1/2 0/2 hosta 1/5 1",
        "[2]<stdout>:hostb 2/5 0/2 1/3 hostb 2/5 0",
        "[3]<stdout>:hostb 3/5 1/2 1/2 hostb 3/5 1",
        "[4]<stdout>:hostc 4/5 0/1 2/3 hostc 4/5 0",
    ]
    assert ended.errors == ""


def test_the_line_that_shows_where_ranks_are(cluster: Cluster) -> None:
    """As people type it, with `localhost` and a login shell."""
    line = "echo RANK:$OMPI_COMM_WORLD_RANK on $(hostname)"
    ended = run(cluster["hosta"], "-np", "2", "-H", "localhost:1,hostb:1", "bash", "-lc", line)
    assert ended.code == 0, ended
    assert ended.lines() == ["[0]<stdout>:RANK:0 on hosta", "[1]<stdout>:RANK:1 on hostb"]


def test_ranks_compute_together(cluster: Cluster) -> None:
    ended = run(cluster["hosta"], *TWO_EACH, "python", "-c", SUM)
    assert ended.code == 0, ended
    assert [line.partition(":")[2] for line in ended.lines()] == [
        f"rank {rank} of 4 on {host}: 10.0"
        for rank, host in enumerate(["hosta", "hosta", "hostb", "hostb"])
    ]


# Rank 1 shares the launcher's host, and its parent is the driver.
JOIN_OFTEN = """
import os, horovod.numpy as hvd
for step in range(60):
    hvd.init()
    hvd.barrier()
    if hvd.rank() == 1 and step in (19, 59):
        counts = [len(os.listdir(f"/proc/{os.getppid()}/{what}")) for what in ("task", "fd")]
        print("driver", *counts, flush=True)
    hvd.shutdown()
"""


def test_joining_often_from_another_host_leaves_nothing_in_the_driver(cluster: Cluster) -> None:
    """Rank 0's wait for questions is carried by the link, and ends there, too."""
    hosts = ("-np", "2", "-H", "hostb:1,hosta:1")
    ended = run(cluster["hosta"], *hosts, "python", "-c", JOIN_OFTEN)
    assert ended.code == 0, ended
    first, last = (line.split()[1:] for line in ended.lines())
    for before, after in zip(first, last, strict=True):
        assert int(after) <= int(before) + 5, ended


def test_the_launcher_may_be_reached_by_nobody(cluster: Cluster) -> None:
    """Then everything, the key-value store included, goes through the ssh connections."""
    a = cluster["hosta"]
    with a.blocked_ports(1, 65535, source=LAN):
        ended = run(a, "-np", "2", "-H", "hostb:1,hostc:1", "python", "-c", SUM)
    assert ended.code == 0, ended
    assert "[1]<stdout>:rank 1 of 2 on hostc: 3.0" in ended.lines()


def test_much_output_comes_whole_by_either_way(cluster: Cluster) -> None:
    a = cluster["hosta"]
    command = ["-np", "1", "-H", "hostb:1", "bash", "-c", "seq 200000; echo end >&2"]
    expected = "".join(f"[0]<stdout>:{number}\n" for number in range(1, 200001))
    direct = run(a, *command)
    with a.blocked_ports(1, 65535, source=LAN):
        through_ssh = run(a, *command)
    for ended in (direct, through_ssh):
        assert ended.code == 0 and ended.errors == "[0]<stderr>:end\n"
        assert ended.output == expected


def test_the_first_failure_is_the_exit_status(cluster: Cluster) -> None:
    line = 'if [ "$HOROVOD_RANK" = 3 ]; then echo bad luck >&2; exit 7; fi; exec sleep 60'
    ended = run(cluster["hosta"], *TWO_EACH, "bash", "-c", line)
    assert ended.code == 7
    assert "the job failed: rank 3 on hostb exited with code 7" in ended.errors
    assert "bad luck" in ended.errors.partition("last lines of rank 3's stderr")[2]


def test_a_rank_runs_in_the_same_directory_with_the_same_environment(
    cluster: Cluster, tmp_path: Path
) -> None:
    line = 'echo "$PWD $MINE $HOSTNAME $LISTED"'
    ended = run(
        cluster["hosta"],
        *ONE_EACH,
        "bash",
        "-c",
        line,
        cwd=str(tmp_path),
        env={"MINE": "two  words", "LISTED": "a;b'c\"d$e"},
    )
    assert ended.code == 0, ended
    there = f"[1]<stdout>:{tmp_path} two  words hostb a;b'c\"d$e"
    assert ended.lines()[1] == there, "HOSTNAME is that of the host"


def test_secrets_are_on_no_command_line_and_in_no_environment(cluster: Cluster) -> None:
    line = 'stat -c "%a %U $HOROVOD_SECRET_KEY_FILE" $HOROVOD_SECRET_KEY_FILE; '
    line += 'echo "key:$(cat $HOROVOD_SECRET_KEY_FILE)"; exec sleep 60'
    job = Job(cluster["hosta"], *ONE_EACH, "bash", "-c", line, env={"TOKEN": "hush-4711"})
    job.wait_for("key:", 2)
    (key,) = {line.partition("key:")[2] for line in job.output.splitlines() if "key:" in line}
    files = [line.split(":", 1)[1] for line in job.output.splitlines() if " root " in line]
    assert len(key) == 64 and len(files) == 2
    everything = cluster.processes()
    assert any(one.command.startswith("ssh ") for one in everything)
    # A rank that has printed its key may not have become `sleep` yet.
    assert sum(one.command.startswith(("sleep 60", "bash -c stat")) for one in everything) == 2
    for process in everything:
        assert "hush-4711" not in process.command and key not in process.command, process
        environment = Path(f"/proc/{process.pid}/environ").read_bytes().decode(errors="replace")
        assert key not in environment, process
    for host, file in zip(["hosta", "hostb"], sorted(files), strict=True):
        mode, owner, path = file.split()
        assert (mode, owner) == ("600", "root"), host
    os.kill(job.process.pid, 15)
    assert job.finish().code == 143
    assert_nothing_left(cluster)
    for file in files:
        path = file.split()[2]
        assert not any(host.path(path).exists() for host in cluster), path


def test_the_users_ssh_configuration_holds(cluster: Cluster) -> None:
    """A name that only ssh knows, a host on the way, a port: all from `~/.ssh/config`."""
    a, c = cluster["hosta"], cluster["hostc"]
    config = a.path("/root/.ssh/config")
    config.write_text(
        f"Host gpu1\n HostName hostb\n ProxyJump hostc\n"
        f"Host *\n Port {PORT}\n StrictHostKeyChecking accept-new\n"
    )
    jumps = c.sshd.log.count("Accepted publickey")
    try:
        line = "echo $(hostname) $HOROVOD_HOSTNAME"
        ended = run(a, "-np", "2", "-H", "hosta:1,gpu1:1", "bash", "-c", line, port=None)
    finally:
        config.unlink()
    assert ended.code == 0, ended
    assert ended.lines() == ["[0]<stdout>:hosta hosta", "[1]<stdout>:hostb gpu1"]
    assert c.sshd.log.count("Accepted publickey") == jumps + 1


def test_key_and_user(cluster: Cluster) -> None:
    """`-i` and `user@host`: the usual key is out of the way."""
    a = cluster["hosta"]
    folder = a.path("/root/.ssh")
    (folder / "id_ed25519").rename(folder / "another")
    try:
        ended = run(a, "-i", "/root/.ssh/another", "-np", "1", "-H", "root@hostb:1", "hostname")
    finally:
        (folder / "another").rename(folder / "id_ed25519")
    assert (ended.code, ended.output) == (0, "[0]<stdout>:hostb\n"), ended


def test_host_file_and_output_files(cluster: Cluster, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# the cluster\nhosta slots=1\nhostb:2   # two\n")
    logs = tmp_path / "logs"
    ended = run(
        cluster["hosta"],
        *("--hostfile", str(hosts), "--output-filename", str(logs)),
        *("bash", "-c", "echo on $(hostname); echo problem >&2"),
    )
    assert ended.code == 0, ended
    for rank, host in enumerate(["hosta", "hostb", "hostb"]):
        assert (logs / f"rank.{rank}" / "stdout").read_text() == f"[{rank}]<stdout>:on {host}\n"
        assert (logs / f"rank.{rank}" / "stderr").read_text() == f"[{rank}]<stderr>:problem\n"


def test_login_noise_does_no_harm(cluster: Cluster) -> None:
    b = cluster["hostb"]
    noise = b.path("/root/.bashrc")
    noise.write_text("echo welcome to hostb; echo mind the gap >&2\n")
    try:
        ended = run(cluster["hosta"], *ONE_EACH, "hostname", within=TIMEOUT)
    finally:
        noise.unlink()
    assert (ended.code, ended.errors) == (0, ""), ended
    assert ended.lines() == ["[0]<stdout>:hosta", "[1]<stdout>:hostb"]
