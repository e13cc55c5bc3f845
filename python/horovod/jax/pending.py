"""Waiting for programs in flight: `jax.jit` returns before a program has run.

A rank that needs no results, because only rank 0 prints them for example, may be at its end while
the other ranks are in programs that need it.
"""

from __future__ import annotations

import contextlib
import threading

import jax
import numpy as np

from horovod.common.basics import counters


def wait_for_programs(limit: float | None) -> None:
    """Waits until the programs that this thread has started have ended.

    A device runs the programs of a thread in their order, so one more is enough. Gives up when no
    collective has ended for `limit` seconds.
    """
    last = jax.jit(_nothing)(np.zeros(1, np.float32))
    if limit is None:
        _wait(last)
        return
    waiting = threading.Thread(target=_wait, args=(last,), name="hvd-programs", daemon=True)
    waiting.start()
    before = None
    while waiting.is_alive() and before != (now := counters()):
        before = now
        waiting.join(limit)


def _nothing(array: jax.Array) -> jax.Array:
    return array + 1


def _wait(array: jax.Array) -> None:
    with contextlib.suppress(Exception):
        jax.block_until_ready(array)
