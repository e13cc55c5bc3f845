"""Starting jobs: the command line (`launch`) and Python functions (`run`).

`run` is loaded when it is asked for, so that `horovodrun` does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horovod.runner.function_job import run

__all__ = ["run"]


def __getattr__(name: str) -> object:
    if name == "run":
        from horovod.runner.function_job import run

        return run
    if name == "_HorovodArgs":
        from horovod.runner.compatibility import _HorovodArgs

        return _HorovodArgs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
