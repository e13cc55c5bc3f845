"""`--output-filename`."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(("ranks", "first"), [(1, "rank.0"), (2, "rank.0"), (11, "rank.00")])
def test_each_rank_has_its_files_and_the_console_still_shows_all(
    run, tmp_path: Path, ranks: int, first: str
) -> None:
    logs = tmp_path / "deep" / "logs"
    script = "echo out; echo err >&2"
    arguments = ("-np", str(ranks), "--output-filename", str(logs), "sh", "-c", script)
    code, output, errors = run(*arguments)
    assert code == 0
    assert (logs / first / "stdout").read_bytes() == b"[0]<stdout>:out\n"
    assert (logs / first / "stderr").read_bytes() == b"[0]<stderr>:err\n"
    assert len(list(logs.iterdir())) == ranks
    assert output.count(b"out\n") == errors.count(b"err\n") == ranks


def test_files_of_an_earlier_job_are_overwritten(run, tmp_path: Path) -> None:
    for word in ("a long first line", "short"):
        assert run("-np", "1", "--output-filename", str(tmp_path), "echo", word)[0] == 0
    assert (tmp_path / "rank.0" / "stdout").read_bytes() == b"[0]<stdout>:short\n"


def test_a_directory_that_cannot_be_made_is_an_error_before_anything_runs(
    run, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    logs, proof = str(tmp_path / "file" / "logs"), tmp_path / "proof"
    code, _, errors = run("-np", "1", "--output-filename", logs, "touch", str(proof))
    assert code == 1
    assert errors.startswith(b"horovodrun: cannot create `" + logs.encode())
    assert not proof.exists()


def test_a_full_disk_is_said_once_and_the_job_goes_on(run, tmp_path: Path) -> None:
    (tmp_path / "rank.0").mkdir()
    full = tmp_path / "rank.0" / "stdout"
    full.symlink_to("/dev/full")
    script = "echo a; echo b; sleep 0.1; echo c"
    arguments = ("-np", "2", "--output-filename", str(tmp_path), "sh", "-c", script)
    code, output, errors = run(*arguments)
    assert code == 1
    assert output.count(b"[0]<stdout>:c\n") == 1
    assert errors.count(b"cannot write `" + bytes(full) + b"`: No space left on device") == 1
    assert errors.splitlines()[-1].startswith(b"horovodrun: 3 lines of `" + bytes(full) + b"` were")
    assert (tmp_path / "rank.1" / "stdout").read_bytes().endswith(b":c\n")


def test_a_full_disk_does_not_hide_a_workers_own_failure(run, tmp_path: Path) -> None:
    (tmp_path / "rank.0").mkdir()
    (tmp_path / "rank.0" / "stdout").symlink_to("/dev/full")
    script = "echo a; exit 5"
    assert run("-np", "1", "--output-filename", str(tmp_path), "sh", "-c", script)[0] == 5
