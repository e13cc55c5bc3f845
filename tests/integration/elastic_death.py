"""A rank that is killed inside of `elastic.run`, in a job that was not started as elastic."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# Rank 1 dies in its third step. The others have to learn it from the error of an operation, and
# must not wait for rank 1 in another init.
SCRIPT = """
import os, signal
import {library}
import horovod.{library} as hvd

hvd.init()
reduce = {reduce}
state = {state}

@hvd.elastic.run
def train(state):
    while True:
        if hvd.rank() == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        reduce()
        state.step += 1
        state.commit()

train(state)
"""


def assert_a_killed_rank_ends_the_job(
    horovodrun: Callable[..., Any], library: str, reduce: str, state: str
) -> None:
    """Fails unless the survivor says in time who is gone and why it does not go on."""
    script = SCRIPT.format(library=library, reduce=reduce, state=state)
    done = horovodrun("-np", "2", sys.executable, "-c", script, timeout=50)
    output = done.stderr + done.stdout
    assert done.returncode != 0
    assert "not started with elastic options" in output and "rank 1 on host" in output
