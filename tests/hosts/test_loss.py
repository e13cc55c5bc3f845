"""A job that loses something: it ends within ten seconds, says who, where and why, and leaves no
process on any host."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import (
    HOROVODRUN,
    SPEC,
    Ended,
    Job,
    agent,
    assert_nothing_left,
    ends,
    free_port,
    kill,
    named,
    new_token,
    ssh_to,
)

TWO_EACH = ("-np", "4", "-H", "hosta:2,hostb:2")

SLEEPS = "sleep 72 & echo up; exec sleep 73"
"""A rank with a child."""

STUBBORN = """
setsid bash -c 'trap "" TERM INT HUP; echo up; while :; do sleep 71; done' &
bash -c 'echo up; sleep 72; :' &
echo up; exec sleep 73
"""
"""A rank with a child, and with a stubborn one that has left session and group."""

LOOP = """
import horovod.numpy as hvd, numpy
hvd.init()
for number in range(10**9):
    hvd.allreduce(numpy.ones(1000, numpy.float32), name="x")
    if number == 10:
        print("up", flush=True)
"""
"""A rank that computes with the others until something breaks."""


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


def sleeping(cluster: Cluster) -> Job:
    job = Job(cluster["hosta"], *TWO_EACH, "bash", "-c", SLEEPS)
    job.wait_for("up", 4)
    return job


def stubborn(cluster: Cluster) -> Job:
    job = Job(cluster["hosta"], *TWO_EACH, "bash", "-c", STUBBORN)
    job.wait_for("up", 12)
    return job


def computing(cluster: Cluster) -> Job:
    job = Job(cluster["hosta"], *TWO_EACH, "python", "-c", LOOP)
    job.wait_for("up", 4)
    return job


def over(job: Job, cluster: Cluster) -> Ended:
    """The end of the job, in time and everywhere."""
    end = time.monotonic() + SPEC
    ended = job.finish(within=SPEC)
    assert ended.code != 0, ended
    assert "panicked" not in ended.errors, ended
    assert_nothing_left(cluster, end - time.monotonic())
    return ended


def over_while_cut(job: Job, cluster: Cluster) -> Ended:
    """The same where a host is cut off: of the connection, sshd's own process may wait longer."""
    end = time.monotonic() + SPEC
    ended = job.finish(within=SPEC)
    assert ended.code != 0, ended
    for host in cluster:
        for process in host.processes():
            if not process.command.startswith("sshd: "):
                assert ends(process, end), f"left on {host.name}: {process}"
    return ended


def test_a_remote_rank_is_killed(cluster: Cluster) -> None:
    job = sleeping(cluster)
    kill(named(cluster["hostb"], "sleep 73")[0].pid)
    ended = over(job, cluster)
    assert ended.code == 128 + signal.SIGKILL
    told = [line for line in ended.errors.splitlines() if "the job failed: rank" in line]
    assert len(told) == 1 and "on hostb was killed by signal 9 (SIGKILL)" in told[0]
    assert "out of memory" in ended.errors


def test_a_remote_rank_that_computes_is_killed(cluster: Cluster) -> None:
    job = computing(cluster)
    ranks = [one for one in cluster["hostb"].processes() if one.command.startswith("python -c")]
    victim = ranks[0].pid
    environment = Path(f"/proc/{victim}/environ").read_text().split("\0")
    (rank,) = (line[len("HOROVOD_RANK=") :] for line in environment if "HOROVOD_RANK=" in line)
    kill(victim)
    ended = over(job, cluster)
    assert ended.code == 128 + signal.SIGKILL
    assert f"the job failed: rank {rank} on hostb was killed by signal 9" in ended.errors


@pytest.mark.parametrize("half", ["supervisor", "worker"])
def test_the_agent_is_killed(cluster: Cluster, half: str) -> None:
    job = stubborn(cluster)
    supervisor, worker = agent(cluster["hostb"])
    kill({"supervisor": supervisor, "worker": worker}[half])
    ended = over(job, cluster)
    assert "the job failed: host hostb with ranks 2, 3 was lost: its agent" in ended.words()


def test_both_halves_of_the_agent_are_killed(cluster: Cluster) -> None:
    """Then the kernel ends the ranks."""
    job = Job(cluster["hosta"], *TWO_EACH, "bash", "-c", "echo up; exec sleep 74")
    job.wait_for("up", 4)
    kill(*agent(cluster["hostb"]))
    ended = over(job, cluster)
    assert "the job failed: host hostb with ranks 2, 3 was lost: " in ended.words()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ssh_is_killed(cluster: Cluster, number: int) -> None:
    job = sleeping(cluster)
    os.kill(ssh_to(cluster["hosta"], "hostb"), number)
    ended = over(job, cluster)
    lost = "the job failed: host hostb with ranks 2, 3 was lost: "
    # Either notices first: the launcher, or the agent, whose session ends with it.
    ours, theirs = "the ssh", "its agent was ended by signal 15 (SIGTERM)"
    assert lost + ours in ended.words() or lost + theirs in ended.words()
    assert "ssh" in ended.words()


def test_the_session_there_is_killed(cluster: Cluster) -> None:
    """As when an administrator ends it: sshd's process for the connection."""
    job = sleeping(cluster)
    sessions = [one for one in cluster["hostb"].processes() if "sshd: root" in one.command]
    kill(*(one.pid for one in sessions))
    ended = over(job, cluster)
    lost = "the job failed: host hostb with ranks 2, 3 was lost: "
    # Either notices first: our ssh, or the agent, which is told to end.
    broke, told = "the ssh connection to it broke", "its agent was ended by signal 15 (SIGTERM)"
    assert lost + broke in ended.words() or lost + told in ended.words()
    assert "ssh" in ended.words()


@pytest.mark.parametrize("begin", [stubborn, computing])
def test_the_cable_is_cut(cluster: Cluster, begin: Callable[[Cluster], Job]) -> None:
    job = begin(cluster)
    cluster.cut(cluster["hostb"])
    try:
        ended = over_while_cut(job, cluster)
    finally:
        cluster.mend(cluster["hostb"])
    assert "hostb" in ended.words() and "the job failed" in ended.words(), ended
    if begin is stubborn:
        words = "host hostb with ranks 2, 3 was lost: no sign of life for 5.5 s"
        assert words in ended.words()


def test_the_interface_goes_down(cluster: Cluster) -> None:
    job = sleeping(cluster)
    cluster["hostb"].link_down("ens5")
    try:
        ended = over_while_cut(job, cluster)
    finally:
        cluster["hostb"].link_up("ens5")
    assert "host hostb with ranks 2, 3 was lost: no sign of life" in ended.words()


def test_the_driver_is_killed(cluster: Cluster) -> None:
    job = stubborn(cluster)
    kill(job.driver())
    ended = over(job, cluster)
    assert ended.code == 128 + signal.SIGKILL
    assert "the launcher's own process was killed by signal 9 (SIGKILL)" in ended.errors


def test_the_launcher_is_killed(cluster: Cluster) -> None:
    """The process that the user has started: only its other half is left to report anything."""
    job = sleeping(cluster)
    kill(job.process.pid)
    over(job, cluster)


def test_everything_on_the_launchers_host_is_killed(cluster: Cluster) -> None:
    """Other hosts notice by themselves."""
    job = stubborn(cluster)
    while processes := cluster["hosta"].processes():
        kill(*(one.pid for one in processes))
    job.process.wait(SPEC)
    assert_nothing_left(cluster)


def test_the_launchers_host_is_cut_off(cluster: Cluster) -> None:
    job = sleeping(cluster)
    cluster.cut(cluster["hosta"])
    try:
        ended = over_while_cut(job, cluster)
    finally:
        cluster.mend(cluster["hosta"])
    assert "host hostb with ranks 2, 3 was lost: no sign of life" in ended.words()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(cluster: Cluster, number: signal.Signals) -> None:
    job = sleeping(cluster)
    if number == signal.SIGINT:
        os.killpg(job.process.pid, number)  # as a terminal does it
    else:
        os.kill(job.process.pid, number)
    ended = over(job, cluster)
    assert ended.code == 128 + number
    assert f"{number.name}: ending 4 ranks" in ended.errors


def test_a_signal_while_a_host_does_not_answer(cluster: Cluster) -> None:
    a, b = cluster
    with b.blocked_ports(1, 65535):
        job = Job(a, *TWO_EACH, "true")
        with pytest.raises(subprocess.TimeoutExpired):
            job.process.wait(1.5)
        os.kill(job.process.pid, signal.SIGINT)
        ended = job.finish(within=SPEC)
    assert ended.code == 128 + signal.SIGINT


@pytest.mark.parametrize("half", ["supervisor", "worker", "both"])
def test_an_agent_with_a_token_is_killed(cluster: Cluster, half: str) -> None:
    """No ssh tells how it ended, and the ranks elsewhere notice at about the same time."""
    a, b = cluster
    token = {"HOROVOD_AGENT_TOKEN": new_token()}
    port = free_port(a)
    waiting = b.popen([HOROVODRUN, "agent", f"{a.address()}:{port}"], env=token)
    options = ("-np", "2", "-H", "hosta:1,hostb:1", "--agents", str(port))
    job = Job(a, *options, "python", "-c", LOOP, port=None, env=token)
    job.wait_for("up", 2)
    supervisor, worker = sorted(one.pid for one in b.processes() if " agent " in one.command)
    kill(*{"supervisor": [supervisor], "worker": [worker], "both": [supervisor, worker]}[half])
    ended = job.finish(within=SPEC)
    waiting.terminate()
    waiting.wait(SPEC)
    assert ended.code != 0
    words = ended.words()
    assert "the job failed: host hostb with rank 1 was lost: its agent " in words
    assert "still ran" not in words
