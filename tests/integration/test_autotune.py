"""HOROVOD_AUTOTUNE=1: a real job finds better parameters than those it starts with."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

# Four tensors, one after the other, so that a step takes at least four cycle times. Every result
# is checked while everything changes.
SCRIPT = """
import numpy as np
import horovod.numpy as hvd

hvd.init()
for step in range({steps}):
    for index in range(4):
        values = np.full(1000 * (1 + 20 * index), hvd.rank() + step, dtype=np.float32)
        total = hvd.allreduce(values, name=f"t{{index}}", op=hvd.Sum)
        assert (total == 2 * step + 1).all()
print("done")
"""

# Of the start and of nine points, and of the contest between them, five samples of two steps each.
SETTINGS = {
    "HOROVOD_AUTOTUNE": "1",
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "2",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "10",
}
STEPS = 2 * 5 * (10 + 3) + 5

# The row of a search that went wrong: 25 ms before every answer, no fusion, small chunks.
BAD_START = (
    "cycle_time_ms,tensor_fusion_threshold,chunk_bytes,small_allreduce_bytes,score\n"
    "25,0,16384,1024,0.1\n"
)

HEADER = [
    "hierarchical_allreduce",
    "hierarchical_allgather",
    "torus_allreduce",
    "cache_enabled",
    "cycle_time_ms",
    "tensor_fusion_threshold",
    "score",
]


def run(*options: str, steps: int = STEPS, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", *options]
    job = subprocess.run(
        [*command, sys.executable, "-c", SCRIPT.format(steps=steps)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("done") == 2
    return job


def rows_of(path: Path) -> list[dict[str, float]]:
    with path.open() as table:
        reader = csv.DictReader(table)
        assert reader.fieldnames is not None and list(reader.fieldnames)[:7] == HEADER
        return [{column: float(text) for column, text in row.items()} for row in reader]


def test_a_bad_start_ends_better(tmp_path: Path) -> None:
    start, log = tmp_path / "start.csv", tmp_path / "log.csv"
    start.write_text(BAD_START)
    job = run("--autotune-log-file", str(log), HOROVOD_AUTOTUNE_START=str(start), **SETTINGS)
    assert "no effect" not in job.stderr
    rows = rows_of(log)
    first, last = rows[0], rows[-1]
    assert (first["cycle_time_ms"], first["tensor_fusion_threshold"]) == (25, 0)
    assert first["chunk_bytes"] == 16384
    # A cycle time of 25 ms makes a step more than a hundred times slower than it could be.
    assert last["score"] > 5 * first["score"], rows
    assert last["cycle_time_ms"] < 5
    # The search, the contest, and the winner once more.
    assert 12 <= len(rows) <= 14
    tried = {key: last[key] for key in last if key != "score"}
    assert any(tried == {key: row[key] for key in tried} for row in rows[:-1])


def test_what_is_set_is_not_tuned(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    fixed = {
        "HOROVOD_FUSION_THRESHOLD": str(3 << 20),
        "HOROVOD_CYCLE_TIME": "0.5",
        "HOROVOD_CACHE_CAPACITY": "7",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",
    }
    run(HOROVOD_AUTOTUNE_LOG=str(log), HOROVOD_LOG_LEVEL="info", **SETTINGS, **fixed)
    rows = rows_of(log)
    assert len({row["chunk_bytes"] for row in rows}) > 4
    for column, value in [
        ("tensor_fusion_threshold", 3),
        ("cycle_time_ms", 0.5),
        ("cache_enabled", 1),
        ("hierarchical_allreduce", 0),
    ]:
        assert {row[column] for row in rows} == {value}, column


def test_options_of_horovodrun_turn_it_on_and_it_says_what_it_does(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    options = (
        "--autotune",
        f"--autotune-log-file={log}",
        "--autotune-warmup-samples=0",
        "--autotune-steps-per-sample=1",
        "--autotune-bayes-opt-max-samples=2",
        "--log-level=info",
    )
    job = run(*options, steps=40)
    output = job.stdout + job.stderr
    assert output.count("autotuning tried") == len(rows_of(log)) - 1
    assert output.count("autotuning keeps") == 1


def test_deterministic_results_are_not_tuned(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    job = run(steps=10, HOROVOD_DETERMINISTIC="1", HOROVOD_AUTOTUNE_LOG=str(log), **SETTINGS)
    warning = "HOROVOD_AUTOTUNE has no effect with HOROVOD_DETERMINISTIC=1"
    assert job.stderr.count(warning) == 1, job.stderr
    assert not log.exists()


def test_it_is_off_by_default(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    run(steps=10, HOROVOD_AUTOTUNE_LOG=str(log))
    assert not log.exists()
