"""What each rank of a `horovod.run` job executes: fetch the function, call it, store its result."""

from __future__ import annotations

import os
import pickle
import sys

from horovod import _core

FUNCTION_KEY = "runfunc/func"
RESULT_KEY = "runfunc_result/{rank}"
FETCH_TIMEOUT_SECONDS = 60.0


def main() -> None:
    """Runs this rank's part of the job. An exception of the function ends the rank."""
    import cloudpickle

    search_path, call = pickle.loads(_core.store_get(FUNCTION_KEY, FETCH_TIMEOUT_SECONDS))
    # The function may live in a module that only the caller's search path leads to.
    sys.path.extend(entry for entry in search_path if entry not in sys.path)
    function, args, kwargs = cloudpickle.loads(call)
    result = cloudpickle.dumps(function(*args, **kwargs))
    _core.store_put(RESULT_KEY.format(rank=os.environ["HOROVOD_RANK"]), result)


if __name__ == "__main__":
    main()
