"""What can be typed, and what is said about mistakes."""

from __future__ import annotations

import time

import pytest


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-np 2", "no command to run"),
        ("python train.py", "how many processes?"),
        ("", "how many processes?"),
        ("-np 0 true", "a whole number from 1"),
        ("-np -2 true", "a whole number from 1"),
        ("-np two true", "a whole number from 1"),
        ("-np", "a value is required"),
        ("-np 2 -H localhost true", "the number of slots is missing"),
        ("-np 2 -H localhost:1,localhost:1 true", "listed more than once"),
        ("-np 3 -H localhost:2 true", "3 processes do not fit: the hosts have 2 slots"),
        ("-np 1 --no-such-option true", "--no-such-option"),
        ("-np 1 --ver true", "--ver"),
        ("-np 1 --log-level LOUD true", "TRACE, DEBUG"),
        ("-np 1 --autotune-gaussian-process-noise 2 true", "a number from 0 to 1"),
        ("-np 1 --stall-check --no-stall-check true", "cannot be used with"),
        ("-np 1 --stall-check-shutdown-time-seconds 5 true", "is below HOROVOD_STALL_CHECK_TIME"),
        ("-np 1 -hostfile no-such-file true", "cannot read the host file `no-such-file`"),
        ("-np 1 --hostfile hosts -H localhost:1 true", "cannot be used with"),
        ("-np 1 --min-np 1 true", "`--min-np` comes with elastic training"),
        ("-np 1 --mpi true", "`--mpi` comes with the MPI launchers"),
        ("-np 1 --port-range 9-8 true", "is not a range of ports"),
        ("-np 1 --advertise other=10.0.0.1 true", "--advertise names host `other`"),
        ("-np 1 --agents 4711 true", "HOROVOD_AGENT_TOKEN is not set"),
        ("-np 1 --results-fd 77 true", "file descriptor 77"),
    ],
)
def test_mistakes_are_named_without_a_traceback(run, line: str, text: str) -> None:
    code, output, errors = run(*line.split())
    assert code == (1 if "results-fd" in line else 2), errors
    assert output == b""
    assert text in errors.decode()
    assert b"Traceback" not in errors
    assert b"panicked" not in errors


def test_options_for_mpirun_are_ignored_with_a_warning(run) -> None:
    code, output, errors = run("-np", "1", "--mpi-args=-x NCCL_DEBUG", "echo", "ran")
    assert (code, output) == (0, b"[0]<stdout>:ran\n")
    assert b"`--mpi-args` has no effect without `--mpi`; leave it out" in errors


def test_as_many_ranks_as_asked_for_not_as_many_as_fit(run) -> None:
    code, output, _ = run("-np", "2", "-H", "localhost:4", "sh", "-c", "echo $HOROVOD_SIZE")
    assert code == 0
    assert sorted(output.splitlines()) == [b"[0]<stdout>:2", b"[1]<stdout>:2"]


@pytest.mark.parametrize("hosts", ["localhost:2", "127.0.0.1:2", " localhost:1 , 127.0.0.1:1 "])
def test_hosts_alone_say_how_many(run, hosts: str) -> None:
    code, output, _ = run("-H", hosts, "echo", "x")
    assert (code, output.count(b"x")) == (0, 2)


def test_what_follows_the_command_belongs_to_it(run) -> None:
    code, output, _ = run("-np", "1", "echo", "-np", "3", "--verbose", "-v", "--", "x")
    assert (code, output) == (0, b"[0]<stdout>:-np 3 --verbose -v -- x\n")
    assert run("-np", "1", "--", "echo", "x")[1] == b"[0]<stdout>:x\n"


def test_arguments_reach_the_command_unchanged(run) -> None:
    odd = ["a b", "$HOME", "'\"", "", "*", "é\n"]
    assert (
        run("-np", "1", "printf", "%s|", *odd)[1]
        == b"[0]<stdout>:"
        + b"|".join(word.encode() for word in odd).replace(b"\n", b"\n[0]<stdout>:")
        + b"|"
    )


@pytest.mark.parametrize("option", ["-v", "--version", "--vers"])
def test_version(run, option: str) -> None:
    assert run(option)[:2] == (0, b"0.29.0\n")


@pytest.mark.parametrize("option", ["-cb", "--check-build"])
def test_check_build(run, option: str) -> None:
    code, output, _ = run(option)
    lines = output.decode().splitlines()
    assert (code, lines[0]) == (0, "Horovod v0.29.0:")
    boxes = [line.strip()[4:] for line in lines if line.startswith("    [")]
    frameworks = ["TensorFlow", "PyTorch", "MXNet"]
    assert boxes == [*frameworks, "MPI", "Gloo", "NCCL", "DDL", "CCL", "MPI", "Gloo"]
    assert lines.count("    [X] Gloo") == 2


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(run, option: str) -> None:
    code, output, errors = run(option)
    assert (code, errors) == (0, b"")
    assert b"Usage: horovodrun -np N [options] command" in output
    assert b"\x1b" not in output


def test_options_for_several_machines_are_accepted(run) -> None:
    line = "-p 12345 -i key --gloo --disable-cache --network-interfaces lo -np 1 true"
    assert run(*line.split()) == (0, b"", b"")


def test_garbage_in_the_environment_is_refused_before_a_worker_starts(run) -> None:
    environment = {"HOROVOD_CACHE_CAPACITY": "a few"}
    code, output, errors = run("-np", "2", "echo", "started", environment=environment)
    assert (code, output) == (2, b"")
    assert errors.count(b"HOROVOD_CACHE_CAPACITY=`a few` is not a whole number") == 1


def test_options_without_effect_yet_say_so(run) -> None:
    code, _, errors = run("-np", "1", "--num-nccl-streams", "2", "true")
    assert code == 0
    assert b"HOROVOD_NUM_NCCL_STREAMS (--num-nccl-streams) has no effect yet" in errors


def test_a_small_job_is_over_at_once(run) -> None:
    took = []
    for _ in range(5):
        began = time.monotonic()
        assert run("-np", "2", "true")[0] == 0
        took.append(time.monotonic() - began)
    assert min(took) < 0.15, took
