"""`horovod.run`: functions as jobs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import horovod


def place_and_sum(factor: int, offset: int = 0) -> tuple[int, int, float]:
    import horovod.numpy as hvd

    hvd.init()
    total = hvd.allreduce(float(factor * hvd.rank() + offset), op=hvd.Sum)
    return hvd.rank(), hvd.size(), float(total)


@pytest.mark.parametrize("num_proc", [1, 3])
def test_results_by_rank(num_proc: int) -> None:
    results = horovod.run(place_and_sum, (2,), {"offset": 1}, num_proc=num_proc)
    total = float(sum(2 * rank + 1 for rank in range(num_proc)))
    assert results == [(rank, num_proc, total) for rank in range(num_proc)]


def test_one_process_is_the_default() -> None:
    assert horovod.run(lambda: "done") == ["done"]


def test_options_reach_the_launcher(tmp_path: Path) -> None:
    results = horovod.run(
        lambda: print("to the file"),
        num_proc=2,
        hosts="localhost:2",
        start_timeout=30,
        ssh_port=22,
        ssh_identity_file=__file__,
        disable_cache=True,
        output_filename=str(tmp_path / "output"),
        use_gloo=True,
        network_interfaces=["lo"],
    )
    assert results == [None, None]
    assert any("to the file" in file.read_text() for file in tmp_path.rglob("stdout"))


def test_large_arguments_and_results() -> None:
    results = horovod.run(lambda data: data * 2, (b"x" * 3_000_000,), num_proc=2)
    assert [len(result) for result in results] == [6_000_000] * 2


def fail_on_rank_1() -> None:
    import horovod.numpy as hvd

    hvd.init()
    if hvd.rank() == 1:
        raise KeyError("the reason \x1b[31m")
    hvd.allreduce(1.0)


def test_only_the_first_failure_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="the reason") as caught:
        horovod.run(fail_on_rank_1, num_proc=3)
    text = str(caught.value)
    assert "ended with code 1; rank 1 on host localhost failed first:\nTraceback" in text
    assert text.count("Traceback") == 1
    assert text.endswith("KeyError: 'the reason \\x1b[31m'")
    assert "run_task" not in text
    assert capfd.readouterr().err == ""


def test_the_files_of_failing_ranks_have_their_tracebacks(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="rank 1 on host localhost failed first"):
        horovod.run(fail_on_rank_1, num_proc=2, output_filename=str(tmp_path))
    assert "KeyError: 'the reason" in (tmp_path / "rank.1" / "stderr").read_text()


def test_an_exception_with_escape_sequences_does_not_reach_the_terminal() -> None:
    def fail() -> None:
        raise SystemError("\x1b]0;title\x07")

    with pytest.raises(RuntimeError, match="SystemError") as caught:
        horovod.run(fail)
    assert str(caught.value).endswith("SystemError: \\x1b]0;title\\x07")


def test_a_rank_that_is_killed_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        import horovod.numpy as hvd

        hvd.init()
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(1.0)

    with pytest.raises(RuntimeError, match=r"rank 1 on localhost .*killed") as caught:
        horovod.run(fail, num_proc=2)
    assert "Traceback" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err


INTERRUPTED = """
import os, sys, threading, time
import horovod
from horovod.runner import function_job

function_job.DRAIN_SECONDS = 0.1
released = threading.Event()

class SlowErrors:
    # Like a notebook's that is busy.
    def write(self, text):
        if "working" in text:
            print("forwarding", flush=True)
            released.wait()
    def flush(self):
        pass

def wait():
    print("running", os.getpid(), flush=True)
    print("working", file=sys.stderr, flush=True)
    time.sleep(60)

died = []
threading.excepthook = died.append
sys.stderr = SlowErrors()
try:
    horovod.run(wait, num_proc=2)
except KeyboardInterrupt:
    released.set()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(30)
    print("interrupted, threads that died:", died)
"""


def test_an_interrupted_job_leaves_nothing_behind() -> None:
    caller = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with caller:
        assert caller.stdout is not None
        first = [caller.stdout.readline() for _ in range(3)]
        caller.send_signal(signal.SIGINT)
        output, _ = caller.communicate(timeout=60)
    assert output.splitlines()[-1] == "interrupted, threads that died: []"
    ranks = [line.split()[-1] for line in first if "running" in line]
    assert len(ranks) == 2
    assert not [rank for rank in ranks if Path(f"/proc/{rank}").exists()]


def test_a_result_that_cannot_be_sent() -> None:
    import threading

    with pytest.raises(RuntimeError, match="pickle"):
        horovod.run(lambda: threading.Lock())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"hosts": "localhost:1", "hostfile": "hosts"}, ValueError),
        ({"use_gloo": True, "use_mpi": True}, ValueError),
        ({"min_num_proc": 1}, NotImplementedError),
        ({"max_num_proc": 1}, NotImplementedError),
        ({"host_discovery_script": "hosts.sh"}, NotImplementedError),
    ],
)
def test_options_are_checked(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        horovod.run(place_and_sum, (1,), num_proc=1, **options)


def test_the_old_name_of_num_proc() -> None:
    with pytest.warns(DeprecationWarning, match="num_proc"):
        assert horovod.run(lambda: 1, np=2) == [1, 1]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="`apt-get install openmpi-bin`")
def test_mpirun_starts_the_ranks_of_a_function() -> None:
    def ranks_and_sum(offset: int) -> tuple[int, int, float, bool]:
        import horovod.numpy as hvd

        hvd.init()
        total = hvd.allreduce(float(hvd.rank() + offset), op=hvd.Sum)
        names = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
        return hvd.rank(), hvd.size(), float(total), any(name in os.environ for name in names)

    found = horovod.run(ranks_and_sum, (10,), num_proc=2, use_mpi=True)
    assert found == [(0, 2, 21.0, True), (1, 2, 21.0, True)]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="`apt-get install openmpi-bin`")
def test_the_exception_of_a_rank_below_mpirun_is_raised() -> None:
    def fails() -> None:
        raise KeyError("the reason")

    with pytest.raises(RuntimeError, match=r"failed first:\n(.|\n)*KeyError: 'the reason'"):
        horovod.run(fails, num_proc=2, use_mpi=True)


def test_mpirun_starts_functions_on_this_host_only() -> None:
    hosts = "localhost:1,far.invalid:1"
    with pytest.raises(RuntimeError, match=r"`far\.invalid` is another one; leave out"):
        horovod.run(lambda: 1, num_proc=2, hosts=hosts, use_mpi=True)
    assert horovod.run(lambda: 1, num_proc=2) == [1, 1]
