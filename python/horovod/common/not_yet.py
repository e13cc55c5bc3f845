"""Packages of upstream Horovod that this version does not have yet. Each exists as a module that
says so when it is imported.
"""

from __future__ import annotations

INSTEAD = {
    "ray": "start jobs with horovodrun or horovod.run()",
    "spark": "start jobs with horovodrun or horovod.run()",
}
"""The names of these packages, and what can be done without them."""


def explain(package: str) -> str:
    """The error message for `import horovod.<package>`."""
    return f"this version of Horovod has no horovod.{package} yet; {INSTEAD[package]}"
