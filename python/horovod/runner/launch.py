"""The entry point of `horovodrun`. Must stay light: it is on the way of every job's start."""

from __future__ import annotations

import sys

from horovod import _core


def run_commandline() -> None:
    """Runs `horovodrun` with this process's arguments and exits with its code."""
    sys.exit(_core.run_commandline(sys.argv[1:]))


if __name__ == "__main__":
    run_commandline()
