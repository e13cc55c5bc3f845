"""What each rank of a `horovod.run` job executes: fetch the function, call it, store its result.

An exception is stored too, and not printed: `horovod.run` raises that of the rank that failed
first, and the others' would only hide it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import sys
import traceback
from types import TracebackType

from horovod import _core

FUNCTION_KEY = "runfunc/func"
RESULT_KEY = "runfunc_result/{rank}"
ERROR_KEY = "runfunc_error/{rank}"
FETCH_TIMEOUT_SECONDS = 60.0
KEPT_CHARACTERS = 100_000
"""Of a traceback, at its end."""


def main() -> None:
    """Runs this rank's part of the job. An exception of the function ends the rank."""
    import cloudpickle

    _take_place_from_mpirun()
    sys.excepthook = _store_exception
    search_path, prints_exceptions, call = pickle.loads(
        _core.store_get(FUNCTION_KEY, FETCH_TIMEOUT_SECONDS)
    )
    if prints_exceptions:
        sys.excepthook = _store_and_print_exception
    # The function may live in a module that only the caller's search path leads to.
    sys.path.extend(entry for entry in search_path if entry not in sys.path)
    function, args, kwargs = cloudpickle.loads(call)
    result = cloudpickle.dumps(function(*args, **kwargs))
    _core.store_put(RESULT_KEY.format(rank=os.environ["HOROVOD_RANK"]), result)


def _take_place_from_mpirun() -> None:
    """Sets what `horovodrun` would have set, for a rank that `mpirun` started on this host."""
    for launcher in ("OMPI_COMM_WORLD", "PMI"):
        rank, size = (os.environ.get(f"{launcher}_{name}") for name in ("RANK", "SIZE"))
        if "HOROVOD_RANK" not in os.environ and rank is not None and size is not None:
            place = {"RANK": rank, "LOCAL_RANK": rank, "CROSS_RANK": "0"}
            sizes = {"SIZE": size, "LOCAL_SIZE": size, "CROSS_SIZE": "1"}
            os.environ.update({f"HOROVOD_{name}": text for name, text in (place | sizes).items()})


def _store_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Called by the interpreter instead of printing an uncaught exception."""
    rank = os.environ["HOROVOD_RANK"]
    text = "".join(traceback.format_exception(kind, error, _of_the_function(trace)))
    report = {
        "rank": int(rank),
        "host": os.environ.get("HOROVOD_HOSTNAME") or socket.gethostname(),
        "traceback": text[-KEPT_CHARACTERS:],
    }
    try:
        _core.store_put(ERROR_KEY.format(rank=rank), json.dumps(report).encode())
    except Exception:
        sys.__excepthook__(kind, error, trace)


def _store_and_print_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """The same where standard error is also written to a file, which should contain it."""
    with contextlib.suppress(Exception):
        sys.__excepthook__(kind, error, trace)
    _store_exception(kind, error, trace)


def _of_the_function(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback below this module; all of it if there is none."""
    below = None
    step = trace
    while step is not None:
        if step.tb_frame.f_code.co_filename == __file__:
            below = step.tb_next
        step = step.tb_next
    return below or trace


if __name__ == "__main__":
    main()
