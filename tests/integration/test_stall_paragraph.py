"""The stall warning tells where the rank that is missed stands, whatever it is doing."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

# Rank 1 comes late to `x`, after `load_batch` has done what the test is about.
SCRIPT = """
import ctypes, faulthandler, os, re, signal, sys, threading, time
import numpy as np
import horovod.numpy as hvd

{before}
hvd.init()
hvd.allreduce(np.ones(3), name="first")

def load_batch():
    {work}

def main():
    if hvd.rank() == 1:
        load_batch()
    hvd.allreduce(np.ones(3), name="x")
    {after}
    print("done", flush=True)

main()
"""

WARNING = "missing on rank 1 on host `localhost`: [allreduce.x]"


def script_of(work: str, before: str = "", after: str = "pass") -> str:
    return SCRIPT.format(work=work, before=before, after=after)


def position(work: str, before: str = "") -> str:
    """Where rank 1 stands while it is in the last line of its work."""
    lines = script_of(work, before).splitlines()
    work_line = lines.index("def main():") - 1
    call_line = lines.index("        load_batch()") + 1
    return (
        f"its program stands at <string>:{work_line} in load_batch "
        f"(called from <string>:{call_line} in main)"
    )


def run(
    work: str, before: str = "", after: str = "pass", shutdown: int = 0
) -> subprocess.CompletedProcess[str]:
    script = script_of(work, before, after)
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2"]
    limits = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1"}
    if shutdown:
        limits["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] = str(shutdown)
    return subprocess.run(
        [*command, sys.executable, "-c", script],
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        timeout=60,
    )


def paragraph(job: subprocess.CompletedProcess[str]) -> str:
    """The one warning of a job that ended well."""
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("done") == 2
    found = [line for line in job.stderr.splitlines() if WARNING in line]
    assert len(found) == 1, job.stderr
    return found[0]


# No other thread of this Python runs meanwhile.
HOLD_GIL = "ctypes.PyDLL(None).sleep(3)"


@pytest.mark.parametrize(
    "work",
    [
        "time.sleep(3)",
        "end = time.monotonic() + 3\n    while time.monotonic() < end: pass",
        HOLD_GIL,
    ],
    ids=["sleeping", "busy", "holding the GIL"],
)
def test_the_paragraph_names_file_line_and_function(work: str) -> None:
    text = paragraph(run(work))
    assert "Rank 1 on host `localhost` last finished `allreduce.first`" in text, text
    assert position(work) in text, text


# Rank 0 comes to `mine` too, but only after both were reported.
OTHER_ORDER = """
if os.environ["HOROVOD_RANK"] == "0":
    def late():
        time.sleep(3)
        hvd.allreduce(np.ones(1), name="mine")
    threading.Thread(target=late).start()"""


def test_a_rank_that_waits_for_something_else_inside_horovod_says_so() -> None:
    # Later than rank 0 comes to `x`: the paragraph is about the longest wait.
    work = "time.sleep(0.3); hvd.allreduce(np.ones(1), name='mine')"
    text = paragraph(run(work, before=OTHER_ORDER))
    assert "`allreduce.mine` under way" in text, text
    assert "its program waits inside horovod (`allreduce`), called from <string>:" in text, text
    assert " in load_batch" in text, text


def test_a_suspended_rank_did_not_answer() -> None:
    stop = (
        "child = os.fork() or (time.sleep(5), os.kill(os.getppid(), signal.SIGCONT), os._exit(0)); "
        "os.kill(os.getpid(), signal.SIGSTOP); os.waitpid(child, 0)"
    )
    text = paragraph(run(stop))
    assert "Rank 1 on host `localhost` did not answer within 2 s" in text, text
    assert "last submitted `allreduce.first`" in text, text


@pytest.mark.parametrize(
    ("before", "work", "reason"),
    [
        (
            "[signal.signal(number, lambda *_: print('disturbed', flush=True)) "
            "for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1)]",
            HOLD_GIL,
            "is not registered",
        ),
        (
            "",
            "[signal.signal(number, lambda *_: print('disturbed', flush=True)) "
            f"for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1)]; {HOLD_GIL}",
            "the program uses the signal",
        ),
        ("", f"close_files(); {HOLD_GIL}", "has closed the file"),
    ],
    ids=["no signal left", "signal taken later", "file closed"],
)
def test_where_it_cannot_be_told_nothing_is_disturbed(before: str, work: str, reason: str) -> None:
    close = (
        "def close_files():\n"
        "    for name in os.listdir('/proc/self/fd'):\n"
        "        link = f'/proc/self/fd/{name}'\n"
        "        if os.path.exists(link) and 'hvd-python-stack' in os.readlink(link):\n"
        "            os.dup2(1, int(name))\n"
    )
    job = run(work, before=close + before)
    text = paragraph(job)
    assert "where its program stands is unknown" in text, text
    assert reason in text, text
    assert "disturbed" not in job.stdout
    assert "most recent call first" not in job.stdout + job.stderr


def test_blocked_signals_and_a_faulthandler_of_the_users_do_not_matter() -> None:
    before = (
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); "
        "faulthandler.enable(); faulthandler.register(signal.SIGUSR1)"
    )
    after = "assert faulthandler.is_enabled() and faulthandler.unregister(signal.SIGUSR1)"
    text = paragraph(run("time.sleep(3)", before=before, after=after))
    assert position("time.sleep(3)", before) in text, text


def test_the_error_of_the_shutdown_time_contains_it_too() -> None:
    start = time.monotonic()
    job = run("time.sleep(40)", shutdown=2)
    assert time.monotonic() - start < 20
    assert job.returncode != 0
    error = [line for line in job.stderr.splitlines() if "HorovodInternalError" in line]
    assert "stalled for more than 2 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)" in error[0], job.stderr
    assert position("time.sleep(40)") in error[0], job.stderr


def test_the_signal_is_given_back_at_shutdown() -> None:
    script = (
        "import os, signal, sys\n"
        "import horovod.numpy as hvd\n"
        "def caught():\n"
        "    masks = [l for l in open('/proc/self/status') if l.startswith('SigCgt')]\n"
        "    return int(masks[0].split()[1], 16) >> (signal.SIGRTMIN - 1)\n"
        "before = caught()\n"
        "for _ in range(3):\n"
        "    hvd.init()\n"
        "    during = caught()\n"
        "    hvd.shutdown()\n"
        "    assert bin(during).count('1') == bin(before).count('1') + 1, (before, during)\n"
        "    assert caught() == before\n"
        "hvd.init()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if caught() == before else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    job = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert job.returncode == 0, job.stderr
