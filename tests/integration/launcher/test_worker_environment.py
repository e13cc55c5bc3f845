"""What a worker finds in its environment."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import pytest


def variables(run, *arguments: str, **environment: str) -> dict[str, dict[str, str]]:
    """The environment of each rank."""
    code, output, _ = run(*arguments, "env", environment=environment)
    assert code == 0
    found: dict[str, dict[str, str]] = {}
    for rank, name, value in re.findall(r"\[(\d+)\]<stdout>:(\w+)=(.*)", output.decode()):
        found.setdefault(rank, {})[name] = value
    return found


def test_each_rank_is_told_its_place_and_where_to_meet(run) -> None:
    found = variables(run, "-np", "2")
    for rank in ("0", "1"):
        seen = found[rank]
        expected = {
            "HOROVOD_HOSTNAME": "localhost",
            "HOROVOD_RANK": rank,
            "HOROVOD_SIZE": "2",
            "HOROVOD_LOCAL_RANK": rank,
            "HOROVOD_LOCAL_SIZE": "2",
            "HOROVOD_CROSS_RANK": "0",
            "HOROVOD_CROSS_SIZE": "1",
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_IFACE": "lo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "OMPI_COMM_WORLD_RANK": rank,
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": rank,
            "PYTHONUNBUFFERED": "1",
        }
        assert {name: seen.get(name) for name in expected} == expected
        assert int(seen["HOROVOD_GLOO_RENDEZVOUS_PORT"]) > 0
        assert "_HOROVOD_SECRET_KEY" not in seen
        assert not Path(seen["HOROVOD_SECRET_KEY_FILE"]).exists(), "gone with the job"


def test_the_key_is_in_a_file_that_only_its_owner_reads(run) -> None:
    show = 'stat -c "%a %u" $HOROVOD_SECRET_KEY_FILE; cat $HOROVOD_SECRET_KEY_FILE'
    code, output, errors = run("-np", "2", "sh", "-c", show)
    lines = [line.split(":", 1)[1] for line in output.decode().splitlines()]
    assert code == 0, errors
    assert lines.count(f"600 {os.getuid()}") == 2
    keys = {line for line in lines if re.fullmatch("[0-9a-f]{64}", line)}
    assert len(keys) == 1, "one key for all ranks"


def test_a_job_inside_a_job_has_its_own_numbers(run) -> None:
    outer = {"HOROVOD_RANK": "7", "HOROVOD_SIZE": "9", "HOROVOD_SECRET_KEY_FILE": "/outer"}
    found = variables(run, "-np", "1", **outer)["0"]
    assert (found["HOROVOD_RANK"], found["HOROVOD_SIZE"]) == ("0", "1")
    assert found["HOROVOD_SECRET_KEY_FILE"] != "/outer"


def test_what_the_user_has_set_is_passed_on_but_shell_leftovers_are_not(run) -> None:
    given = {"MY_OWN": "x", "CUDA_VISIBLE_DEVICES": "1", "OLDPWD": "/", "HOROVOD_CYCLE_TIME": "3"}
    found = variables(run, "-np", "1", **given)["0"]
    assert (found["MY_OWN"], found["CUDA_VISIBLE_DEVICES"]) == ("x", "1")
    assert found["HOROVOD_CYCLE_TIME"] == "3"
    assert "OLDPWD" not in found


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ("--fusion-threshold-mb 10", "HOROVOD_FUSION_THRESHOLD", "10485760"),
        ("--cycle-time-ms 20", "HOROVOD_CYCLE_TIME", "20.0"),
        ("--cache-capacity 0", "HOROVOD_CACHE_CAPACITY", "0"),
        ("--gloo-timeout-seconds 7", "HOROVOD_GLOO_TIMEOUT_SECONDS", "7"),
        ("--log-level DEBUG", "HOROVOD_LOG_LEVEL", "DEBUG"),
        ("--log-without-timestamp", "HOROVOD_LOG_HIDE_TIME", "1"),
        ("--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME", "0"),
        ("--autotune", "HOROVOD_AUTOTUNE", "1"),
        ("--no-autotune", "HOROVOD_AUTOTUNE", "0"),
        ("--autotune-log-file log.csv", "HOROVOD_AUTOTUNE_LOG", "log.csv"),
        ("--autotune-warmup-samples 5", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "5"),
        ("--autotune-steps-per-sample 20", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "20"),
        ("--autotune-bayes-opt-max-samples 50", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "50"),
        ("--autotune-gaussian-process-noise 0.2", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.2"),
        ("--timeline-filename t.json", "HOROVOD_TIMELINE", "t.json"),
        ("--no-timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "0"),
        ("--stall-check", "HOROVOD_STALL_CHECK_DISABLE", "0"),
        ("--stall-check-warning-time-seconds 9", "HOROVOD_STALL_CHECK_TIME_SECONDS", "9"),
        ("--stall-check-shutdown-time-seconds 90", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "90"),
        ("--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "0"),
        ("--no-hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "0"),
        ("--no-torus-allreduce", "HOROVOD_TORUS_ALLREDUCE", "0"),
        ("--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", "0"),
        ("--num-nccl-streams 4", "HOROVOD_NUM_NCCL_STREAMS", "4"),
        ("--thread-affinity 0,2", "HOROVOD_THREAD_AFFINITY", "0,2"),
    ],
)
def test_options_reach_the_workers_and_beat_the_environment(
    run, options: str, name: str, value: str
) -> None:
    assert variables(run, "-np", "1", *options.split(), **{name: "1"})["0"][name] == value


def test_many_ranks_need_no_higher_limit_of_open_files(run) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))

    code, output, errors = run("-np", "80", "sh", "-c", "ulimit -Sn", prepare=lower)
    assert (code, errors) == (0, b"")
    assert output.count(b"<stdout>:64\n") == 80
