"""`horovodrun --mpi`: the ranks are started by a real `mpirun` of each MPI that is installed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mpi
import pytest

Run = Callable[..., "tuple[int, bytes, bytes]"]


@pytest.fixture(params=mpi.ALL)
def family(request: pytest.FixtureRequest) -> str:
    if remedy := mpi.missing(request.param):
        pytest.skip(f"{request.param} is not installed: {remedy}")
    return request.param


@pytest.fixture
def environment(family: str, tmp_path: Path) -> dict[str, str]:
    return mpi.environment(family, tmp_path / "bin")


def ranks(output: bytes) -> list[str]:
    return sorted(re.findall(r"rank \d+", output.decode()))


def test_ranks_run_and_their_output_is_forwarded(run: Run, environment: dict[str, str]) -> None:
    script = f"{mpi.RANK}; echo oops $r >&2"
    code, output, errors = run(
        "--mpi", "-np", "3", "-H", "localhost:4", "sh", "-c", script, environment=environment
    )
    assert (code, ranks(output)) == (0, ["rank 0", "rank 1", "rank 2"]), errors
    assert sorted(re.findall(rb"oops \d", errors)) == [b"oops 0", b"oops 1", b"oops 2"]
    assert b"horovodrun" not in errors
    assert not re.search(b"warn|deprecat", errors.lower()), errors


def test_ranks_find_each_other(run: Run, environment: dict[str, str]) -> None:
    program = "import horovod.numpy as hvd; hvd.init(); total = hvd.allreduce(1.0, op=hvd.Sum)"
    program += "; print(f'rank {hvd.rank()} of {hvd.size()}: {float(total)}', flush=True)"
    line = ["--mpi", "-np", "2", sys.executable, "-c", program]
    code, output, errors = run(*line, environment=environment)
    assert code == 0, errors
    assert b"rank 0 of 2: 2.0" in output and b"rank 1 of 2: 2.0" in output
    assert not re.search(b"warn|error", errors.lower()), errors


def test_options_and_the_environment_reach_the_ranks(run: Run, environment: dict[str, str]) -> None:
    variables = {**environment, "MINE": "with blanks", "HOROVOD_RANK": "7", "PMI_RANK": "7"}
    script = f'{mpi.RANK}; echo "<$MINE> $HOROVOD_CYCLE_TIME <$HOROVOD_RANK> $PYTHONUNBUFFERED"'
    line = ["--mpi", "-np", "2", "--cycle-time-ms", "20", "sh", "-c", script]
    code, output, errors = run(*line, environment=variables)
    assert (code, ranks(output)) == (0, ["rank 0", "rank 1"]), errors
    assert output.count(b"<with blanks> 20.0 <> 1") == 2, output


def test_the_exit_status_is_that_of_mpirun(run: Run, environment: dict[str, str]) -> None:
    script = "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 0 ] || exit 3"
    code, _, errors = run("--mpi", "-np", "2", "sh", "-c", script, environment=environment)
    assert code == 3
    assert errors.endswith(b"horovodrun: the job failed: mpirun exited with code 3\n"), errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(
    start, environment: dict[str, str], number: signal.Signals
) -> None:
    job = start("--mpi", "-np", "2", "sh", "-c", "echo up; sleep 1000", environment=environment)
    job.wait_for(b"up", 2)
    began = time.monotonic()
    os.killpg(job.process.pid, number)
    code, _, errors = job.finish()
    assert code == 128 + number, errors
    assert time.monotonic() - began < 8
    job.assert_all_gone(0)


def test_ranks_that_ignore_signals_are_killed(start, environment: dict[str, str]) -> None:
    stubborn = "trap '' INT TERM HUP; echo up; while :; do sleep 1000; done"
    job = start("--mpi", "-np", "2", "bash", "-c", stubborn, environment=environment)
    job.wait_for(b"up", 2)
    job.signal(signal.SIGINT)
    code, _, errors = job.finish()
    assert code == 130, errors
    job.assert_all_gone(1)


@pytest.mark.parametrize("victim", ["horovodrun", "its driver"])
def test_nothing_outlives_a_killed_launcher(
    start, environment: dict[str, str], victim: str
) -> None:
    job = start("--mpi", "-np", "2", "sh", "-c", "echo up; sleep 1000", environment=environment)
    job.wait_for(b"up", 2)
    os.kill(job.driver() if victim == "its driver" else job.process.pid, signal.SIGKILL)
    assert job.process.wait(10) in (-signal.SIGKILL, 128 + signal.SIGKILL)
    job.assert_all_gone(10)


def test_a_dry_run_prints_what_can_be_typed(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    trace = tmp_path / "started"
    script = f'touch {trace}; {mpi.RANK}; echo "it\'s $HOROVOD_CYCLE_TIME <$HOROVOD_SIZE>"'
    line = ["--mpi", "-np", "2", "--cycle-time-ms", "20", "--dry-run", "sh", "-c", script]
    variables = {**environment, "HOROVOD_SIZE": "9"}
    code, output, errors = run(*line, environment=variables)
    assert (code, errors) == (0, b"")
    assert not trace.exists()
    assert output.startswith(b"# mpirun of ") and output.count(b"\n") == 2
    typed = subprocess.run(
        ["sh", "-c", output.decode()], env=variables, capture_output=True, timeout=60
    )
    assert (typed.returncode, ranks(typed.stdout)) == (0, ["rank 0", "rank 1"]), typed.stderr
    assert typed.stdout.count(b"it's 20.0 <>") == 2, typed.stdout


def test_arguments_for_mpirun_are_added(run: Run, environment: dict[str, str], family: str) -> None:
    added = "-x 'WORDS=a b'" if family.startswith("openmpi") else "-genv WORDS 'a b'"
    line = ["--mpi", "-np", "1", f"--mpi-args={added}", "sh", "-c", "echo got $WORDS"]
    code, output, errors = run(*line, environment=environment)
    assert code == 0 and b"got a b" in output, errors


def test_output_goes_to_files(
    run: Run, environment: dict[str, str], family: str, tmp_path: Path
) -> None:
    directory = tmp_path / "logs"
    named = directory if family.startswith("openmpi") else tmp_path / "log.%r"
    line = ["--mpi", "-np", "2", "-prefix-timestamp", "--output-filename", str(named)]
    code, _, errors = run(*line, "sh", "-c", mpi.RANK, environment=environment)
    assert code == 0, errors
    files = [file for file in tmp_path.rglob("*") if file.is_file() and "bin" not in file.parts]
    written = b"".join(file.read_bytes() for file in files)
    assert ranks(written) == ["rank 0", "rank 1"], files


def test_the_configuration_file_may_choose_mpirun(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("controller: mpi\nparams:\n  cycle_time_ms: 20\n")
    script = f"{mpi.RANK}; echo $HOROVOD_CYCLE_TIME"
    line = ["-np", "1", "--config-file", str(file), "--verbose", "sh", "-c", script]
    code, output, errors = run(*line, environment=environment)
    assert code == 0 and b"20.0" in output
    assert b"horovodrun: mpirun of " in errors, "the command line with --verbose"


def test_no_mpirun_at_all(run: Run, tmp_path: Path) -> None:
    environment = mpi.programs(tmp_path / "bin", mpirun="exit 1")
    line = ["--mpi", "-np", "1", "true"]
    code, _, errors = run(*line, environment=environment)
    assert code == 127 and b"`mpirun --version` fails" in errors
    python = tmp_path / "python"
    python.mkdir()
    for program in ("env", "sh"):
        (python / program).symlink_to(f"/usr/bin/{program}")
    code, _, errors = run(*line, environment={**environment, "PATH": str(python)})
    assert code == 127, errors
    assert b"`--mpi` needs an `mpirun`: there is none in PATH; install one, e.g. `pip" in errors
    # One of the remedies.
    assert run(*line[1:], environment=environment)[0] == 0


def test_an_unknown_mpirun_is_quoted(run: Run, tmp_path: Path) -> None:
    environment = mpi.programs(tmp_path / "bin", mpirun="echo Some MPI 1.0")
    code, _, errors = run("--mpi", "-np", "1", "true", environment=environment)
    assert code == 1 and b"it says `Some MPI 1.0`; put one of these first in PATH" in errors
    first = mpi.programs(tmp_path / "first", mpirun="echo MPICH")
    environment["PATH"] = f"{tmp_path}/first:{environment['PATH']}"
    assert run("--mpi", "-np", "1", "true", environment=first)[:2] == (0, b"MPICH\n")


@pytest.mark.parametrize(
    ("line", "refused", "instead"),
    [
        (
            "-H a:2,b:1",
            "starts as many ranks on one host as on the next, which `-H a:2,b:1` is not; give all",
            "-H a:2,b:2",
        ),
        (
            "-np 1 --network-interfaces eth0,eth1",
            "takes one network interface, not eth0,eth1; give e.g. `--network-interfaces eth0`",
            "-np 1 --network-interfaces eth0",
        ),
        (
            "-H bob@b:1",
            "host `bob@b:1` cannot be given to `mpirun`; write `b`, and set its `User` in ~/.ssh",
            "-H b:1",
        ),
        ("-H [fd00::2]:1", "give it a name, e.g. in /etc/hosts, and write that", "-H b:1"),
        ("-np 1 --mpi-args='a", "`--mpi-args='a` has a quote that does not end", "-np 1"),
    ],
)
def test_what_mpirun_does_not_take_can_be_said_otherwise(
    run: Run, tmp_path: Path, line: str, refused: str, instead: str
) -> None:
    environment = mpi.programs(tmp_path / "bin", mpirun="echo MPICH")
    command = ["--mpi", "--dry-run", "true"]
    code, _, errors = run(*line.split(), *command, environment=environment)
    assert code == 2 and refused in errors.decode()
    assert run(*instead.split(), *command, environment=environment)[0] == 0
