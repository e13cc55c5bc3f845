"""What can be typed, and what is said about mistakes."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

import pytest
from launched import command, lead_a_session


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-np 2", "no command to run"),
        ("python train.py", "the number of processes is missing"),
        ("", "the number of processes is missing"),
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
        (
            "-np 1 --stall-check-shutdown-time-seconds 5 true",
            "is less than HOROVOD_STALL_CHECK_TIME",
        ),
        ("-np 1 -hostfile no-such-file true", "cannot read the host file `no-such-file`"),
        ("-np 1 --hostfile hosts -H localhost:1 true", "cannot be used with"),
        ("-np 1 --min-np 1 true", "`--min-np` needs elastic training"),
        ("-np 1 --mpi --gloo true", "cannot be used with"),
        ("-np 1 --mpi --agents 4711 true", "`--agents` has no meaning with `--mpi`"),
        ("-np 1 --port-range 9-8 true", "is not a range of ports"),
        ("-np 1 --advertise other=10.0.0.1 true", "--advertise names host `other`"),
        ("-np 1 --agents 4711 true", "HOROVOD_AGENT_TOKEN is not set"),
        ("-np 1 -p abc true", "give a port, a whole number from 1 to 65535"),
        ("-np 1 -p 0 true", "give a port, a whole number from 1 to 65535"),
        ("-np 1 -p -22 true", "give a port, a whole number from 1 to 65535"),
        ("-np 1 --agents 70000 true", "give a port, a whole number from 1 to 65535"),
        ("-np 1 -i no-such-key true", "the file `no-such-key` of `-i` does not exist"),
        ("doctor -H localhost:1 -i no-such-key", "the file `no-such-key` of `-i` does not exist"),
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
    assert b"`--mpi-args` has no effect without `--mpi`; omit it" in errors


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
    frameworks = ["TensorFlow", "PyTorch", "MXNet", "JAX"]
    assert boxes == [*frameworks, "MPI", "Gloo", "NCCL", "DDL", "CCL", "MPI", "Gloo"]
    assert lines.count("    [X] Gloo") == 2


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(run, option: str) -> None:
    code, output, errors = run(option)
    assert (code, errors) == (0, b"")
    assert b"Usage: horovodrun -np N [options] command" in output
    assert b"\x1b" not in output


def test_options_for_several_machines_are_accepted(run) -> None:
    line = f"-p 12345 -i {__file__} --gloo --disable-cache --network-interfaces lo -np 1 true"
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


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("correct horse battery staple", "is not a token of `horovodrun agent --new-token`"),
        ("0123456789abcdef" * 4, "is not a token of `horovodrun agent --new-token`"),
        ("hvd-agent-aaaaaaaa-aaaaaaaa", "has a typing mistake"),
    ],
)
def test_only_generated_tokens_are_taken(run, secret: str, problem: str) -> None:
    environment = {"HOROVOD_AGENT_TOKEN": secret}
    for line in (("-np", "1", "--agents", "4711", "true"), ("agent", "localhost:1", "--once")):
        code, _, errors = run(*line, environment=environment)
        assert code == 2
        assert f"HOROVOD_AGENT_TOKEN {problem}" in errors.decode(), errors
        assert b"`horovodrun agent --new-token`" in errors
        assert secret.encode() not in errors


def test_a_new_token_is_fresh_and_taken(run) -> None:
    code, output, errors = run("agent", "--new-token")
    assert (code, errors) == (0, b"")
    assert output.startswith(b"hvd-agent-") and output.endswith(b"\n")
    assert run("agent", "--new-token")[1] != output
    token = {"HOROVOD_AGENT_TOKEN": output.decode().strip()}
    arguments = ("-np", "1", "--agents", "4711", "--dry-run", "true")
    assert run(*arguments, environment=token)[0] == 0


@pytest.mark.parametrize("word", ["doctr", "docter", "debgu", "agnet"])
def test_a_misspelt_command_is_suggested(run, word: str) -> None:
    code, output, errors = run(word, "-H", "localhost:1")
    assert (code, output) == (2, b"")
    meant = {"o": "doctor", "e": "debug", "g": "agent"}[word[1]]
    said = f"there is no command `{word}`; did you mean `horovodrun {meant}`?"
    assert said in errors.decode(), errors


def test_a_program_of_a_similar_name_is_run(run, tmp_path: Path) -> None:
    program = tmp_path / "doctr"
    program.write_text("#!/bin/sh\necho I am a program\n")
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert b"the number of processes is missing" in run("doctr", environment=environment)[2]
    found = run("-np", "1", "doctr", environment=environment)
    assert found[:2] == (0, b"[0]<stdout>:I am a program\n")


def test_a_full_disk_for_the_key_is_named_with_its_path(run, tmp_path: Path) -> None:
    """Nothing may be written to files, wherever they are."""

    def no_files() -> None:
        lead_a_session()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    code, _, errors = run(
        "-np", "1", "true", prepare=no_files, environment={"TMPDIR": str(tmp_path)}
    )
    assert code == 1
    words = errors.decode()
    assert f"cannot keep the job's key in a file: `{tmp_path}/horovod-" in words
    assert "`: File too large" in words and "set TMPDIR" in words


AT_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"


def test_doctor_waits_for_nobody_without_a_name(start) -> None:
    line = [command(), "doctor", "-H", "localhost:1", "--start-timeout", "20"]
    program = [sys.executable, "-c", AT_A_TERMINAL]
    job = start(*line, program=program, environment={"TERM": "xterm"})
    shown = job.finish()[1]
    assert b"asking for Python" in shown, shown
    assert b"waiting for  " not in shown
