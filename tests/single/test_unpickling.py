"""What Horovod unpickles, and nothing else: unpickling executes what it is given (SECURITY.md)."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python/horovod"

UNPICKLE = {
    "common/objects.py": 2,  # Objects of ranks, whose proof was checked.
    "runner/function_job.py": 1,  # Results of `horovod.run()`, from the driver's pipe.
    "runner/run_task.py": 2,  # The user's function, from the authenticated store.
}
"""Files and how often each unpickles."""


def test_only_known_places_unpickle() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        calls = re.findall(r"pickle\.(?:loads?|Unpickler)\b|\.recv\(\)|marshal\.|\bshelve\b", text)
        if calls:
            found[path.relative_to(PACKAGE).as_posix()] = len(calls)
    assert found == UNPICKLE
