"""Forked children of a rank: JAX's threads do not exist there, and a call of it never returns."""

from __future__ import annotations

import os

from horovod.common.basics import is_initialized

_state = {"rank": False, "child of a rank": False}


def _before() -> None:
    _state["rank"] = is_initialized()


def _after_in_child() -> None:
    _state["child of a rank"] |= _state["rank"]


def check() -> None:
    """Raises RuntimeError in a process that was forked from a rank."""
    if _state["child of a rank"]:
        raise RuntimeError(
            f"process {os.getpid()} was forked from a rank, and JAX cannot work here: its threads "
            "have stayed behind. Start it with multiprocessing.get_context('spawn')"
        )


os.register_at_fork(before=_before, after_in_child=_after_in_child)
