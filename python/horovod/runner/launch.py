"""The entry point of `horovodrun`. Must stay light: it is on the way of every job's start."""

from __future__ import annotations

import sys

from horovod import _core


def run_commandline() -> None:
    """Runs `horovodrun` with this process's arguments and exits with its code."""
    sys.exit(_core.run_commandline(sys.argv[1:]))


def __getattr__(name: str) -> object:
    """Names of upstream that programs import from here, loaded when they are asked for."""
    if name in ("_run", "parse_args"):
        from horovod.runner import compatibility

        return getattr(compatibility, name)
    if name.endswith("_built") or name == "extension_available":
        from horovod.common import build

        return getattr(build, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    run_commandline()
