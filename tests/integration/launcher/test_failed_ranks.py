"""Ranks that fail: what is reported, with which exit status, and how soon all is over."""

from __future__ import annotations

import sys
import time

import pytest
from launched import OFFSPRING

FAIL_ON_ONE = 'if [ "$HOROVOD_RANK" = 1 ]; then %s; fi; %s'


@pytest.mark.parametrize("code", [1, 3, 77, 255])
def test_the_exit_code_is_that_of_the_failed_rank(run, code: int) -> None:
    found, _, errors = run("-np", "2", "sh", "-c", FAIL_ON_ONE % (f"exit {code}", "sleep 1000"))
    assert found == code
    assert f"the job failed: rank 1 on localhost exited with code {code}".encode() in errors


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (9, "SIGKILL"), (6, "SIGABRT")])
def test_death_by_a_signal_is_named(run, number: int, name: str) -> None:
    script = FAIL_ON_ONE % (f"kill -{number} $$", "sleep 1000")
    code, _, errors = run("-np", "2", "sh", "-c", script)
    assert code == 128 + number
    assert f"rank 1 on localhost was killed by signal {number} ({name})".encode() in errors


def test_the_last_lines_of_stderr_are_shown_without_the_flood(run) -> None:
    fail = 'for i in $(seq 1 100); do echo "line $i" >&2; done; exit 1'
    _, _, errors = run("-np", "2", "sh", "-c", FAIL_ON_ONE % (fail, "sleep 1000"))
    report = errors[errors.index(b"last lines of rank 1's stderr") :].splitlines()[1:]
    assert report == [b"  | line %d" % number for number in range(81, 101)]


def test_the_report_comes_last(run) -> None:
    code, _, errors = run("-np", "2", "sh", "-c", "echo $HOROVOD_RANK >&2; exit 4")
    assert code == 4
    assert b"  | " in errors.splitlines()[-1]


def test_a_rank_killed_by_a_signal_explains_more_than_one_that_gave_up(run, tmp_path) -> None:
    dead = tmp_path / "dead"
    watch = f"while [ ! -e {dead} ]; do sleep 0.01; done; kill -9 $$"
    script = FAIL_ON_ONE % (f"touch {dead}; exit 1", watch)
    code, _, errors = run("-np", "2", "sh", "-c", script)
    assert code == 137
    assert b"the job failed: rank 0 on localhost was killed by signal 9" in errors


@pytest.mark.parametrize("survivor", ["sleep 1000", 'trap "" TERM; while :; do sleep 1000; done'])
def test_survivors_are_ended_within_five_seconds(start, survivor: str) -> None:
    began = time.monotonic()
    job = start("-np", "4", "bash", "-c", FAIL_ON_ONE % ("exit 3", survivor))
    code, _, errors = job.finish()
    assert code == 3
    assert b"ending the other ranks" in errors
    assert time.monotonic() - began < 5
    job.assert_all_gone(0)


def test_survivors_may_raise_their_own_errors_first(run) -> None:
    watch = "trap 'echo asked; exit 0' TERM; echo noticed; sleep 1000 & wait"
    code, output, _ = run("-np", "2", "sh", "-c", FAIL_ON_ONE % ("exit 3", watch))
    assert code == 3
    assert b"[0]<stdout>:noticed\n[0]<stdout>:asked\n" in output


def test_offspring_of_survivors_is_ended_too(start) -> None:
    job = start("-np", "2", "bash", "-c", FAIL_ON_ONE % ("sleep 0.2; exit 3", OFFSPRING))
    assert job.finish()[0] == 3
    job.assert_all_gone(0)


def test_a_rank_that_ends_well_early_does_not_end_the_job(run) -> None:
    script = FAIL_ON_ONE % ("exit 0", "sleep 0.3; echo later")
    assert run("-np", "2", "sh", "-c", script)[:2] == (0, b"[0]<stdout>:later\n")


def test_leftovers_of_a_job_that_ended_well_are_ended(start) -> None:
    job = start("-np", "2", "bash", "-c", "setsid sleep 1000 & sleep 1000 & echo done")
    code, output, errors = job.finish(8)
    assert (code, output.count(b"done"), errors) == (0, 2, b"")
    job.assert_all_gone(0)


def test_what_leftovers_write_while_they_clean_up_is_not_lost(run) -> None:
    code, output, _ = run("-np", "1", "bash", "-c", "(sleep 0.1; echo cleaned) & echo done")
    assert (code, output) == (0, b"[0]<stdout>:done\n[0]<stdout>:cleaned\n")


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [
        ("no-such-command-anywhere", 127, "no such command in PATH"),
        ("/no/such/file", 127, "no such file"),
        ("/etc/passwd", 126, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started(start, program: str, code: int, text: str) -> None:
    job = start("-np", "2", program)
    found, _, errors = job.finish()
    assert found == code
    assert f"horovodrun: cannot start `{program}`: {text}" in errors.decode()
    job.assert_all_gone(0)


LEAVES = """
import os, sys
import numpy
import horovod.numpy as hvd
hvd.init()
if hvd.rank() == 1:
    {}(0)
hvd.allreduce(numpy.ones(4, numpy.float32), name="x")
"""


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_a_rank_that_exits_with_0_in_the_middle_is_named_as_the_cause(run, leave: str) -> None:
    code, _, errors = run("-np", "3", sys.executable, "-c", LEAVES.format(leave))
    assert code == 1
    report = errors[errors.index(b"horovodrun: the job failed: rank ") :]
    cause = b"horovodrun: because of rank 1 on localhost, which ended with exit code 0 while other"
    assert report.splitlines()[1].startswith(cause), errors
    assert b"still ran" not in errors


HOSTILE = r"""
import numpy
import horovod.numpy as hvd
hvd.init()
if hvd.rank() == 1:
    raise ValueError("\x1b]0;stolen title\x07\x1b[2J\u009b31m nothing happened")
try:
    hvd.allreduce(numpy.ones(4, numpy.float32), name="x")
except Exception as error:
    print(ascii(str(error)), flush=True)
    raise
"""


def test_escape_sequences_of_a_rank_reach_no_terminal_but_by_its_own_output(run) -> None:
    code, output, errors = run("-np", "2", sys.executable, "-X", "utf8", "-c", HOSTILE)
    assert code == 1
    own = [line for line in errors.splitlines() if line.startswith(b"[1]<stderr>:")]
    assert any(b"\x1b]0;stolen" in line for line in own), "what a rank writes stays as it is"
    others = b"\n".join(line for line in errors.splitlines() if not line.startswith(b"[1]<std"))
    assert b"\\x1b]0;stolen title\\x07\\x1b[2J\\x9b31m" in others, others
    for control in (b"\x1b", b"\x07", "\u009b".encode()):
        assert control not in others
    assert b"  | ValueError: \\x1b]0;stolen" in others, "the report"
    # The text of the exception, wherever the other rank shows it.
    assert rb"\\x1b]0;stolen title" in output and rb"'\x1b" not in output
