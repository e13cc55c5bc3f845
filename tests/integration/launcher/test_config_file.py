"""The file of `--config-file`: what it sets, what beats it, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_worker_environment import variables


@pytest.fixture
def write(tmp_path: Path):
    """Writes a configuration file and returns its name."""

    def write_file(text: str) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return str(path)

    return write_file


def test_options_beat_the_file_and_the_file_beats_the_environment(run, write) -> None:
    path = write("params:\n  cycle_time_ms: 10\n  cache_capacity: 5\ncontroller: gloo\n")
    options = ["-np", "1", "--config-file", path, "--cycle-time-ms", "20"]
    inherited = dict.fromkeys(("HOROVOD_CYCLE_TIME", "HOROVOD_CACHE_CAPACITY"), "1")
    found = variables(run, *options, HOROVOD_FUSION_THRESHOLD="1024", **inherited)["0"]
    assert found["HOROVOD_CYCLE_TIME"] == "20.0"
    assert found["HOROVOD_CACHE_CAPACITY"] == "5"
    assert found["HOROVOD_FUSION_THRESHOLD"] == "1024"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params:\n  cache_size: 5\n", "unknown key `params.cache_size`; `params` has"),
        ("parameters:\n  cache_capacity: 5\n", "unknown key `parameters`"),
        ("params:\n  fusion_threshold_mb: -1\n", "`params.fusion_threshold_mb: -1` is invalid"),
        ("controller: smoke\n", "give `gloo` or `mpi`"),
        ("params: [\n", "config.yaml"),
    ],
)
def test_mistakes_name_the_file_or_the_key(run, write, text: str, expected: str) -> None:
    code, output, errors = run("-np", "1", "--config-file", write(text), "true")
    assert (code, output) == (2, b"")
    assert expected in errors.decode()
    assert b"panicked" not in errors


def test_a_file_that_is_not_there_is_named(run, tmp_path: Path) -> None:
    code, _, errors = run("-np", "1", "--config-file", str(tmp_path / "absent.yaml"), "true")
    assert code == 2
    assert b"absent.yaml" in errors
