"""The launcher's part in `horovod.run()`: a function comes in, results go out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from launched import OFFSPRING, OFFSPRING_SAYS, Job, command


def start_function_job(start, *arguments: str, write_end: int, **options: object) -> Job:
    return start(
        *("-np", "2", "--function-stdin", "--results-fd", str(write_end)),
        *arguments,
        stdin=subprocess.PIPE,
        pass_fds=[write_end],
        **options,
    )


def test_workers_do_not_inherit_the_results_pipe(start) -> None:
    read_end, write_end = os.pipe()
    job = start_function_job(
        start, "sh", "-c", f"[ ! -e /proc/self/fd/{write_end} ]; exit $?", write_end=write_end
    )
    os.close(write_end)
    code, _, errors = job.finish()
    with open(read_end, "rb") as results:
        assert results.read() == b""
    assert code == 1
    assert b"rank 0 ended without delivering the result" in errors


def test_a_function_that_never_comes_is_given_up_after_the_start_timeout(start) -> None:
    read_end, write_end = os.pipe()
    job = start_function_job(start, "--start-timeout", "1", "true", write_end=write_end)
    os.close(write_end)
    assert job.process.wait(10) == 1
    assert b"did not start within 1 s: still in phase `function`" in job.process.stderr.read()
    os.close(read_end)


def test_ctrl_c_while_the_function_is_awaited(start) -> None:
    read_end, write_end = os.pipe()
    job = start_function_job(start, "--verbose", "true", write_end=write_end)
    os.close(write_end)
    assert b"phase rendezvous" in b"".join(iter_until(job, b"phase rendezvous"))
    job.signal(signal.SIGINT)
    assert job.process.wait(5) == 130
    os.close(read_end)


def iter_until(job: Job, text: bytes):
    for line in job.process.stderr:
        yield line
        if text in line:
            return


def test_a_job_does_not_outlive_the_program_that_called_for_it(start) -> None:
    caller = """
import os, subprocess, sys
read_end, write_end = os.pipe()
options = ["-np", "2", "--results-fd", str(write_end)]
subprocess.run([sys.argv[1], *options, *sys.argv[2:]], pass_fds=[write_end])
"""
    python = [sys.executable, "-c", caller]
    job = start(command(), "bash", "-c", OFFSPRING, program=python)
    for word in OFFSPRING_SAYS:
        job.wait_for(word, 2)
    assert len(job.processes()) >= 9
    job.signal(signal.SIGKILL)
    job.assert_all_gone(6)
