"""Signals to the launcher, and its violent death: no process may be left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
import time

import pytest
from launched import OFFSPRING, OFFSPRING_SAYS, Job, watched


def start_offspring(start, ranks: int = 2, **options: object) -> Job:
    job = start("-np", str(ranks), "bash", "-c", OFFSPRING, **options)
    for word in OFFSPRING_SAYS:
        job.wait_for(word, ranks)
    assert len(job.processes()) >= 2 + 3 * ranks
    return job


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(start, number: signal.Signals) -> None:
    job = start_offspring(start)
    began = time.monotonic()
    os.killpg(job.process.pid, number)
    code, _, errors = job.finish()
    assert code == 128 + number
    assert f"horovodrun: {number.name}: ending 2 ranks".encode() in errors
    assert time.monotonic() - began < 5
    job.assert_all_gone(0)


def test_workers_are_asked_before_they_are_killed(start) -> None:
    script = "trap 'echo goodbye; exit 0' TERM; echo ready; sleep 1000 & wait"
    job = start("-np", "2", "bash", "-c", script)
    job.wait_for(b"ready", 2)
    began = time.monotonic()
    job.signal(signal.SIGTERM)
    code, output, _ = job.finish()
    assert (code, output.count(b"goodbye")) == (143, 2)
    assert time.monotonic() - began < 2


def test_a_second_ctrl_c_does_not_wait(start) -> None:
    script = 'trap "echo asked" TERM; echo ready; while :; do sleep 1000 & wait; done'
    job = start("-np", "2", "bash", "-c", script)
    job.wait_for(b"ready", 2)
    began = time.monotonic()
    job.signal(signal.SIGINT)
    job.wait_for(b"asked", 2)
    job.signal(signal.SIGINT)
    assert job.finish()[0] == 130
    assert time.monotonic() - began < 3
    job.assert_all_gone(0)


def test_ctrl_c_at_a_terminal(start) -> None:
    terminal, slave = os.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    try:
        job = start_offspring(start, stdin=slave, prepare=take_terminal)
        os.write(terminal, b"\x03")
        code, _, errors = job.finish()
        assert code == 130
        assert errors.count(b"SIGINT") == 1
        job.assert_all_gone(0)
    finally:
        os.close(terminal)
        os.close(slave)


@pytest.mark.parametrize("whole_group", [False, True])
def test_nothing_outlives_a_killed_launcher(start, whole_group: bool) -> None:
    job = start_offspring(start)
    (os.killpg if whole_group else os.kill)(job.process.pid, signal.SIGKILL)
    assert job.process.wait(5) == -signal.SIGKILL
    job.assert_all_gone(6)


def test_nothing_outlives_a_killed_driver(start) -> None:
    job = start_offspring(start)
    os.kill(job.driver(), signal.SIGKILL)
    code, _, errors = job.finish()
    assert code == 137
    assert b"launcher's own process was killed by signal 9 (SIGKILL)" in errors
    job.assert_all_gone(0)


def test_a_driver_that_is_asked_to_end_does_so(start) -> None:
    job = start_offspring(start)
    os.kill(job.driver(), signal.SIGTERM)
    assert job.finish()[0] == 143
    job.assert_all_gone(0)


def test_workers_die_with_both_halves_of_the_launcher(start) -> None:
    job = start("-np", "2", "sh", "-c", "echo ready; exec sleep 1000")
    job.wait_for(b"ready", 2)
    driver = job.driver()
    job.signal(signal.SIGSTOP)
    os.kill(driver, signal.SIGKILL)
    job.signal(signal.SIGKILL)
    job.assert_all_gone(2)


def test_an_ignored_hangup_stays_ignored(start) -> None:
    def as_nohup() -> None:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    job = start("-np", "1", "sh", "-c", "echo ready; sleep 1000", prepare=as_nohup)
    job.wait_for(b"ready")
    job.signal(signal.SIGHUP)
    os.kill(job.driver(), signal.SIGHUP)
    job.signal(signal.SIGTERM)
    assert job.finish()[0] == 143


def test_orphans_that_end_are_reaped_while_the_job_runs(start) -> None:
    job = start("-np", "1", "bash", "-c", "(sleep 0.2 & echo orphan $!); echo ready; sleep 1000")
    job.wait_for(b"ready")
    orphan = int(job.output.split(b"orphan ")[1].split()[0])
    with watched(orphan) as ended:
        assert ended(5)
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{orphan}"):
        assert time.monotonic() < deadline, "a zombie is left"
        os.sched_yield()
