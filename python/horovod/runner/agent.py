"""The agent of a host, as `horovodrun` starts it there through ssh: the ranks are in its care.

Must stay light: it is on the way of every job's start.
"""

from __future__ import annotations

import sys

from horovod import _core


def main() -> None:
    """Serves one job over standard input and output."""
    sys.exit(_core.run_commandline(["agent", "--stdio"]))


if __name__ == "__main__":
    main()
