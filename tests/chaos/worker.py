"""One rank under attack: random collectives, each checked, until told to stop or until one fails.

Speaks in lines of JSON, so that the driver can tell what this rank saw and when:
`ready`, `error`, `wrong`, `leaving`, `terminated` and `done`.

CHAOS_SEED  the stream of operations            CHAOS_STOP   a file; when it exists, all stop
CHAOS_LEAVE what SIGUSR1 makes this rank do: `exception`, `exit` or `_exit`
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import numpy as np
from operations import Operation, Stream, WrongNumber

import horovod.numpy as hvd

ERROR_EXIT = 3
LEAVE_EXIT = 7
WRONG_EXIT = 99


class Told(Exception):
    """The exception that this rank was told to end with."""


class State:
    """What this rank is doing, for its exit report."""

    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    steps = 0
    waiting_since: float | None = None
    told = False


def say(event: str, **facts: Any) -> None:
    line = {"event": event, "rank": State.rank, "time": time.time(), "steps": State.steps, **facts}
    # One write, so that the line stays whole even if this process is killed in the middle.
    os.write(1, f"CHAOS {json.dumps(line)}\n".encode())


def terminate(*_: Any) -> None:
    since = State.waiting_since
    say("terminated", waited=0 if since is None else time.time() - since)
    os._exit(128 + signal.SIGTERM)


def leave(*_: Any) -> None:
    first, State.told = not State.told, True
    how = os.environ["CHAOS_LEAVE"]
    if first:
        say("leaving", how=how)
    if how == "_exit":
        os._exit(LEAVE_EXIT)
    if how == "exit":
        sys.exit(LEAVE_EXIT)
    raise Told("told to leave")


def run_batch(batch: list[Operation]) -> None:
    State.waiting_since = time.time()
    handles = [operation.start() for operation in batch]
    for operation, handle in zip(batch, handles):
        result = hvd.synchronize(handle)
        State.waiting_since = None
        try:
            operation.check(result)
        except WrongNumber as error:
            say("wrong", text=str(error), operation=operation.label)
            os._exit(WRONG_EXIT)
        State.steps += 1
        State.waiting_since = time.time()
    State.waiting_since = None


def stop_is_agreed(round_number: int) -> bool:
    """Every few rounds rank 0 looks, and tells the others."""
    if round_number % 5:
        return False
    State.waiting_since = time.time()
    hvd.barrier()
    flag = np.array([os.path.exists(os.environ["CHAOS_STOP"])])
    stop = bool(hvd.broadcast(flag, 0, name="stop")[0])
    State.waiting_since = None
    return stop


def work() -> None:
    stream = Stream(int(os.environ["CHAOS_SEED"]), hvd.rank(), hvd.size())
    round_number = 0
    while True:
        round_number += 1
        if State.told:
            # The signal came where an exception is swallowed, such as a finalizer.
            leave()
        batch, pause = stream.batch(), stream.pause()
        if pause:
            time.sleep(pause)
        run_batch(batch)
        if round_number == 3:
            say("ready", pid=os.getpid())
        if stop_is_agreed(round_number):
            return


def main() -> None:
    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGUSR1, leave)
    try:
        hvd.init()
        work()
    except hvd.HorovodInternalError as error:
        say("error", text=str(error), waited=time.time() - (State.waiting_since or time.time()))
        check_that_later_calls_fail(str(error))
        print(f"failed: {error}", file=sys.stderr, flush=True)
        sys.exit(ERROR_EXIT)
    say("done")


def check_that_later_calls_fail(first: str) -> None:
    try:
        hvd.allreduce(np.ones(3), name="later")
    except hvd.HorovodInternalError as error:
        if hvd.is_initialized() and str(error) != first:
            say("wrong", text=f"a later call failed differently: {error} instead of {first}")
    except ValueError as error:
        # init() failed, so there is nothing to call.
        if "init" not in str(error):
            raise
    else:
        say("wrong", text=f"a later call succeeded after: {first}")


if __name__ == "__main__":
    main()
