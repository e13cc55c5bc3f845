"""What a job tells about itself: stalls, the timeline, the last operations of a failed rank."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


def run(script: str, ranks: int = 2, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks)]
    return subprocess.run(
        [*command, sys.executable, "-c", script],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


LATE = """
import time
import numpy as np
import horovod.numpy as hvd

hvd.init()
if hvd.rank() == 1:
    time.sleep({seconds})
hvd.allreduce(np.ones(3), name="x")
print("done")
"""


def test_a_stalled_tensor_is_reported_once_with_the_rank_that_misses_it() -> None:
    job = run(LATE.format(seconds=2.5), HOROVOD_STALL_CHECK_TIME_SECONDS="1")
    assert job.returncode == 0, job.stderr
    warning = "missing on rank 1 on host `localhost`: [allreduce.x]"
    assert job.stderr.count(warning) == 1, job.stderr
    assert job.stdout.count("done") == 2


def test_a_job_that_stalls_for_too_long_ends_with_that_error() -> None:
    start = time.monotonic()
    limits = {
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2",
    }
    job = run(LATE.format(seconds=40), **limits)
    assert time.monotonic() - start < 20
    assert job.returncode != 0
    reason = "stalled for more than 2 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)"
    assert f"HorovodInternalError: rank 1 on host `localhost` {reason}" in job.stderr, job.stderr


def test_no_stall_check_says_nothing() -> None:
    job = run(
        LATE.format(seconds=1.5),
        HOROVOD_STALL_CHECK_TIME_SECONDS="1",
        HOROVOD_STALL_CHECK_DISABLE="1",
    )
    assert job.returncode == 0
    assert "missing on" not in job.stderr


def events_of(path: Path) -> list[dict[str, Any]]:
    events = json.loads(path.read_text())
    assert "start_time_since_epoch_in_micros" in events[0]["args"]
    return events


def names(events: list[dict[str, Any]]) -> set[str]:
    labels = [event for event in events if event.get("name") == "process_name"]
    tensors = {label["args"].get("name") for label in labels}
    return {event["name"] for event in events if "name" in event} | tensors


STEPS = """
import numpy as np
import horovod.numpy as hvd

hvd.init()
for step in range(3):
    handles = [hvd.allreduce_async(np.ones(5), name=name) for name in "ab"]
    for handle in handles:
        hvd.synchronize(handle)
hvd.broadcast(np.ones(2), 0, name="c")
"""


def test_timeline_of_a_whole_job(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    job = run(STEPS, HOROVOD_TIMELINE=str(path), HOROVOD_TIMELINE_MARK_CYCLES="1")
    assert job.returncode == 0, job.stderr
    found = names(events_of(path))
    expected = {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "GLOO_ALLREDUCE", "CYCLE_START"}
    assert expected | {"BROADCAST", "allreduce.a", "allreduce.b", "broadcast.c"} <= found, found
    begins = sum(event["ph"] == "B" for event in events_of(path))
    ends = sum(event["ph"] == "E" for event in events_of(path))
    assert begins == ends > 0


PARTS = """
import numpy as np
import horovod.numpy as hvd

hvd.init()
if hvd.rank() == 1:
    hvd.barrier()
arrays = [np.ones((4, 2)), np.ones((6, 2), np.float32)]
handles = [
    hvd.grouped_allreduce_async(arrays, name="r"),
    hvd.grouped_allgather_async(arrays[:1] * 2, name="g"),
    hvd.allgather_async(arrays[1], name="single"),
    hvd.alltoall_async(arrays[0], name="t"),
    hvd.grouped_reducescatter_async(arrays[:1] * 2, name="s"),
    hvd.broadcast_async(arrays[0], 0, name="b"),
]
if hvd.rank() == 0:
    hvd.barrier()
for handle in handles:
    hvd.synchronize(handle)
"""

MEMCPY_IN, MEMCPY_OUT = "MEMCPY_IN_FUSION_BUFFER", "MEMCPY_OUT_FUSION_BUFFER"


def parts_of(events: list[dict[str, Any]], tensor: str) -> list[str]:
    """What happened to a tensor, nested parts in brackets; without what only may happen."""
    labels = [event for event in events if event.get("name") == "process_name"]
    pid = next(label["pid"] for label in labels if label["args"].get("name") == tensor)
    parts: list[str] = []
    for event in events:
        if event.get("pid") == pid and event["ph"] == "B":
            parts += [event["name"], "("]
        elif event.get("pid") == pid and event["ph"] == "E":
            parts.append(")")
    text = " ".join(parts).replace("( )", "").replace("INIT_FUSION_BUFFER ", "")
    return text.replace("QUEUE ", "").split()


def nested(operation: str, *parts: str) -> list[str]:
    return [f"NEGOTIATE_{operation}", operation, "(", *parts, ")"]


def test_timeline_shows_the_parts_of_every_operation(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    job = run(PARTS, HOROVOD_TIMELINE=str(path))
    assert job.returncode == 0, job.stderr
    events = events_of(path)
    gathered = nested("ALLGATHER", "ALLOCATE_OUTPUT", MEMCPY_IN, "GLOO_ALLGATHER", MEMCPY_OUT)
    scattered = nested("REDUCESCATTER", MEMCPY_IN, "GLOO_REDUCESCATTER", MEMCPY_OUT)
    for tensor, parts in {
        "grouped_allreduce.r_1of2": nested("ALLREDUCE", "GLOO_ALLREDUCE"),
        "grouped_allgather.g_1of2": gathered,
        "grouped_allgather.g_2of2": gathered,
        "allgather.single": nested("ALLGATHER", "ALLOCATE_OUTPUT", "GLOO_ALLGATHER"),
        "alltoall.t": nested("ALLTOALL", "ALLOCATE_OUTPUT", "MPI_ALLTOALL"),
        "grouped_reducescatter.s_2of2": scattered,
        "broadcast.b": nested("BROADCAST", "GLOO_BCAST"),
    }.items():
        assert parts_of(events, tensor) == parts, tensor
    # Everything was ready at the same moment on rank 1: all but the first had to wait, and the
    # fusion buffer was not there before.
    found = names(events)
    assert {"QUEUE", "INIT_FUSION_BUFFER"} <= found, found


WATCHING = """
import os, sys, time
import numpy as np
import horovod.numpy as hvd

hvd.init()
hvd.allreduce(np.ones(5), name="seen")
if hvd.rank() == 0:
    wanted = ["allreduce.seen", "NEGOTIATE_ALLREDUCE", '"ALLREDUCE"', "CYCLE_START"]
    deadline = time.monotonic() + 20
    while not all(word in open(os.environ["HOROVOD_TIMELINE"]).read() for word in wanted):
        assert time.monotonic() < deadline
        time.sleep(0.01)
hvd.barrier()
"""


def test_the_timeline_can_be_read_while_the_job_runs(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    job = run(WATCHING, HOROVOD_TIMELINE=str(path), HOROVOD_TIMELINE_MARK_CYCLES="1")
    assert job.returncode == 0, job.stderr


def test_ranks_may_differ_about_the_timeline(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    only_rank_0 = (
        "import os\nif os.environ['HOROVOD_RANK'] != '0': del os.environ['HOROVOD_TIMELINE']\n"
    )
    job = run(only_rank_0 + STEPS, HOROVOD_TIMELINE=str(path))
    assert job.returncode == 0, job.stderr
    assert "allreduce.a" in names(events_of(path))


DYNAMIC = """
import sys
import numpy as np
import horovod.numpy as hvd

hvd.init()
for round in range(5):
    for _ in range(2):
        hvd.start_timeline(f"{sys.argv[1]}/{round}.json", mark_cycles=round % 2 == 1)
    hvd.allreduce(np.ones(5), name=f"round{round}")
    hvd.allreduce(np.ones(5), name="every")
    hvd.stop_timeline()
    hvd.allreduce(np.ones(5), name="between")
"""


@pytest.mark.parametrize("ranks", ["2", "4"])
def test_timeline_started_and_stopped_by_the_program(ranks: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", ranks, sys.executable, "-c"]
    job = subprocess.run(
        [*command, DYNAMIC, str(tmp_path)],
        env={**os.environ, "HOROVOD_TIMELINE": "DYNAMIC"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert job.returncode == 0, job.stderr
    for number in range(5):
        found = names(events_of(tmp_path / f"{number}.json"))
        assert {f"allreduce.round{number}", "allreduce.every"} <= found
        assert ("CYCLE_START" in found) == (number % 2 == 1)


def test_starting_a_timeline_that_was_not_enabled_says_how() -> None:
    script = "import horovod.numpy as hvd; hvd.init(); hvd.start_timeline('x')"
    job = run(script, ranks=1)
    assert "ValueError: the timeline is not enabled; set HOROVOD_TIMELINE=DYNAMIC" in job.stderr


DYING = """
import os, signal
import numpy as np
import horovod.numpy as hvd

hvd.init()
hvd.allreduce(np.ones((4, 2), np.float32), name="fine")
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
hvd.allreduce(np.ones(3), name="hopeless")
"""


def test_survivors_leave_their_last_operations(tmp_path: Path) -> None:
    job = run(DYING, ranks=3, HOROVOD_DUMP_DIR=str(tmp_path))
    assert job.returncode == 128 + 9, job.stderr
    for rank in (0, 2):
        text = (tmp_path / f"horovod-rank-{rank}.txt").read_text()
        assert f"rank {rank} on host localhost" in text
        assert "rank 1 on host `localhost`" in text.splitlines()[1], "the reason"
        states = {line.split()[-1]: line.split()[1] for line in text.splitlines()[4:]}
        assert states["allreduce.fine"] == "done", text
