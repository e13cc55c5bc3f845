"""`--dry-run`: the whole plan in words, and nothing done."""

from __future__ import annotations

from pathlib import Path


def test_hosts_ranks_commands_and_variables_are_shown_and_nothing_is_started(
    run, tmp_path: Path
) -> None:
    trace = tmp_path / "started"
    line = ["-np", "3", "-H", "localhost:2,bob@far.invalid:4", "-p", "12345", "--dry-run"]
    code, output, errors = run(*line, "touch", str(trace))
    text = output.decode()
    assert (code, errors) == (0, b"")
    assert not trace.exists()
    assert f"command: touch {trace}" in text
    assert "host localhost: 2 of 2 slots, ranks 0, 1" in text
    assert "host far.invalid: 1 of 4 slots, ranks 2" in text
    assert "-p 12345 -- bob@far.invalid" in text, "the exact command"
    assert "HOROVOD_RANK=2" in text
    assert "OMPI_COMM_WORLD_RANK=2" in text
    assert "name is unknown here" in text


def test_mistakes_are_found_as_in_earnest(run) -> None:
    code, _, errors = run("-np", "3", "-H", "localhost:2", "--dry-run", "true")
    assert code == 2
    assert b"3 processes do not fit" in errors
