"""What a user sees of the ranks' output."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest
from launched import lead_a_session


def test_every_line_carries_rank_and_stream(run) -> None:
    code, output, errors = run("-np", "2", "sh", "-c", "echo one; echo two; echo three >&2")
    assert code == 0
    expected = [b"[%d]<stdout>:%s" % (rank, word) for rank in (0, 1) for word in (b"one", b"two")]
    assert sorted(output.splitlines()) == expected
    assert sorted(errors.splitlines()) == [b"[0]<stderr>:three", b"[1]<stderr>:three"]


def test_lines_of_different_ranks_never_mix(run) -> None:
    script = "i=0; while [ $i -lt 400 ]; do printf 'abcdefgh%s' ijkl; echo mnop; i=$((i+1)); done"
    code, output, _ = run("-np", "4", "sh", "-c", script)
    assert code == 0
    lines = output.splitlines()
    assert len(lines) == 1600
    assert {line[3:] for line in lines} == {b"<stdout>:abcdefghijklmnop"}


def test_progress_bars_flow(start) -> None:
    job = start("-np", "1", "sh", "-c", r"printf '10%%\r20%%\r'; sleep 1000")
    job.wait_for(b"[0]<stdout>:10%\r[0]<stdout>:20%\r")


def test_a_complete_line_is_shown_at_once_and_an_incomplete_one_is_held_back(start) -> None:
    job = start("-np", "1", "sh", "-c", "printf 'whole\\npart'; echo shown >&2; sleep 1000")
    job.wait_for(b"[0]<stdout>:whole\n")
    assert os.read(job.process.stderr.fileno(), 100) == b"[0]<stderr>:shown\n"
    assert job.output == b"[0]<stdout>:whole\n"


def test_bytes_that_are_no_text_pass_unchanged(run) -> None:
    code, output, _ = run("-np", "1", "printf", r"\377\376 \303\251\n")
    assert (code, output) == (0, b"[0]<stdout>:\xff\xfe \xc3\xa9\n")


def test_an_unfinished_last_line_gets_no_line_end_but_is_not_glued_to_another(run) -> None:
    assert run("-np", "1", "printf", "end")[1] == b"[0]<stdout>:end"
    output = run("-np", "2", "printf", "end")[1]
    assert sorted(output.split(b"\n")) == [b"[0]<stdout>:end", b"[1]<stdout>:end"]


def test_a_very_long_line_arrives_whole_up_to_a_limit_and_broken_beyond(run) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' x; echo"
    code, output, _ = run("-np", "1", "sh", "-c", script)
    assert code == 0
    assert output.count(b"x") == 3_000_000
    assert [len(line) for line in output.splitlines()] == [12 + (1 << 20)] * 2 + [902_860]


def test_timestamps(run) -> None:
    pattern = rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\[0\]<stdout>:hello\n"
    for option in ("-prefix-timestamp", "--prefix-output-with-timestamp"):
        code, output, _ = run(option, "-np", "1", "echo", "hello")
        assert code == 0
        assert re.fullmatch(pattern, output), output


def test_timestamps_are_local_time(run) -> None:
    def hour(zone: str) -> int:
        arguments = ("-prefix-timestamp", "-np", "1", "echo", "x")
        return int(run(*arguments, environment={"TZ": zone})[1][11:13])

    assert (hour("XXX-6") - hour("XXX0")) % 24 in (6, 7)


def test_a_reader_that_goes_away_ends_the_job_quietly(start) -> None:
    job = start("-np", "2", "sh", "-c", "while :; do echo line; done")
    job.wait_for(b"line")
    job.process.stdout.close()
    assert job.process.wait(10) == 141
    assert job.process.stderr.read() == b""
    job.assert_all_gone(0)


def test_a_reader_that_pauses_does_not_keep_the_job_from_being_ended(start) -> None:
    job = start("-np", "2", "sh", "-c", "while :; do echo line; done", stderr=subprocess.DEVNULL)
    job.wait_for(b"line")
    job.signal(15)
    assert job.process.wait(10) == 143
    job.assert_all_gone(0)


def test_stdin_of_workers_is_empty(run) -> None:
    code, output, _ = run("-np", "2", "cat", stdin=subprocess.PIPE)
    assert (code, output) == (0, b"")


def test_verbose_tells_plan_processes_phases_and_ends_on_stderr(run) -> None:
    code, output, errors = run("--verbose", "-np", "2", "true")
    assert (code, output) == (0, b"")
    for text in (
        rb"plan: rank 1 of 2 on localhost, local rank 1 of 2, cross rank 0 of 1",
        rb"rank 0 runs as process \d+",
        rb"phase rendezvous: \d\.\d+ s",
        rb"rank 1 exited with code 0 after",
    ):
        assert re.search(text, errors), errors


def test_a_pipe_carried_off_elsewhere_does_not_keep_the_job_open(start, tmp_path) -> None:
    go = tmp_path / "go"
    script = f"echo pid $$; while [ ! -e {go} ]; do sleep 0.01; done; echo last"
    job = start("-np", "1", "sh", "-c", script)
    job.wait_for(b"\n")
    pid = int(job.output.split()[1])
    elsewhere = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
    try:
        go.touch()
        code, output, _ = job.finish()
    finally:
        os.close(elsewhere)
    assert code == 0
    assert output.endswith(b"[0]<stdout>:last\n")


LINES = "for i in 1 2 3; do echo line $i; echo word $i >&2; done"


def test_a_full_disk_loses_lines_but_not_the_job(run, tmp_path: Path) -> None:
    done = tmp_path / "done"
    with open("/dev/full", "wb", buffering=0) as full:
        arguments = ("-np", "2", "sh", "-c", f"{LINES}; touch {done}.$HOROVOD_RANK")
        code, _, errors = run(*arguments, stdout=full.fileno())
    assert Path(f"{done}.0").exists() and Path(f"{done}.1").exists()
    assert code == 1
    problem = b"horovodrun: cannot write standard output: No space left on device"
    assert errors.count(problem) == 1, errors
    assert errors.count(b"]<stderr>:word") == 6
    last = b"horovodrun: 6 lines of standard output were lost: No space left on device"
    assert errors.splitlines()[-1].startswith(last), errors


def test_a_disk_full_for_both_streams_shows_in_the_exit_status(run) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        streams = {"stdout": full.fileno(), "stderr": full.fileno()}
        assert run("-np", "1", "sh", "-c", LINES, **streams)[0] == 1
        assert run("-np", "1", "sh", "-c", f"{LINES}; exit 7", **streams)[0] == 7


def test_a_disk_with_room_again_gets_whole_lines(start, tmp_path: Path) -> None:
    """`ulimit -f` stands for the disk; it is lifted from outside."""
    log = tmp_path / "log"
    limit = (1000, resource.RLIM_INFINITY)

    def small_disk() -> None:
        lead_a_session()
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    script = "seq 1000 1999; read go < $GO; echo again"
    os.mkfifo(tmp_path / "go")
    with log.open("wb") as file:
        options = {"stdout": file.fileno(), "environment": {"GO": str(tmp_path / "go")}}
        job = start("-np", "1", "sh", "-c", script, prepare=small_disk, **options)
    errors = job.process.stderr
    assert errors.readline().startswith(b"horovodrun: cannot write standard output: File too large")
    resource.prlimit(job.driver(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    (tmp_path / "go").write_text("go\n")
    again = errors.readline()
    lost = re.fullmatch(
        rb"horovodrun: standard output can be written again; (\d+) lines were lost\n", again
    )
    assert lost, again
    assert job.process.wait(20) == 1
    lines = log.read_bytes().splitlines()
    assert lines[-1] == b"[0]<stdout>:again"
    whole = [line for line in lines if re.fullmatch(rb"\[0\]<stdout>:1\d\d\d", line)]
    assert len(whole) + int(lost[1]) == 1000
    assert len(lines) - len(whole) <= 2, "the last one, and one that was cut"


@pytest.mark.parametrize("line", ["--version", "--check-build", "doctor -H localhost:1"])
def test_an_answer_that_cannot_be_written_is_no_success(run, line: str) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        code, _, errors = run(*line.split(), stdout=full.fileno())
    assert code == 1
    assert b"horovodrun: cannot write standard output: No space left on device" in errors
