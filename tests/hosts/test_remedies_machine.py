"""What is said of full disks of a host is done there, and the job that was refused runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import assert_nothing_left
from typed import ECHO, ONE_EACH, command, refused, runs, types

JOB = (*ONE_EACH, *ECHO)


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert_nothing_left(cluster)


@pytest.fixture
def start_file(cluster: Cluster) -> Iterator[Path]:
    """The file that a shell of the second host reads first, also for what comes by ssh."""
    file = cluster["hostb"].path("/root/.bashrc")
    before = file.read_text() if file.exists() else ""
    file.write_text("")
    yield file
    file.write_text(before)


def test_the_full_disk_that_is_shown_is_freed(
    cluster: Cluster, tmp_path: Path, start_file: Path
) -> None:
    """First the second place for the job's key, then the first one is given up."""
    a, b = cluster
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    other.mkdir()
    with b.full(str(full)), b.full("/dev/shm"), b.sshd.running(f"SetEnv TMPDIR={full}"):
        words = refused(a, *JOB, cwd="/")
        assert "host `hostb` has no space left on a disk" in words
        shown = types(a, command(words, "ssh ")).stdout
        for place in (full, "/dev/shm"):
            assert re.search(rf"100% {place}$", shown, re.MULTILINE), shown
        types(b, "rm /dev/shm/filler")
        words = refused(a, *JOB, cwd="/")
        assert f"`{full}`, the place for temporary files, is full" in words, words
        assert "make room on hostb, or set TMPDIR to another place" in words, words
        types(b, f"echo export TMPDIR={other} >> ~/.bashrc")
        assert start_file.read_text().startswith("export TMPDIR=")
        runs(a, *JOB, cwd="/")


def test_temporary_files_of_ranks_go_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    """The ranks' own TMPDIR comes from the user's environment."""
    a, b = cluster
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    other.mkdir()
    with b.full(str(full)):
        words = refused(a, *JOB, cwd="/", env={"TMPDIR": str(full)})
        assert f"`{full}`, the place for temporary files, is full" in words, words
        assert "make room on hostb, or set TMPDIR to another place" in words, words
        runs(a, *JOB, cwd="/", env={"TMPDIR": str(other)})
