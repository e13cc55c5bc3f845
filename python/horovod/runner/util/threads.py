"""Background threads, for programs that import this from upstream; others use `threading`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_thread(
    target: Callable[..., Any],
    args: tuple[Any, ...] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Calls a function in a thread, which is returned. `silent` drops its exceptions."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, such as ({args!r},), not {args!r}")

    def call() -> None:
        try:
            target(*args)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event,
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Calls a function in a thread as soon as an event is set; never if `stop` is set before."""

    def wait_and_call(*args: Any) -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        func(*args)

    return in_thread(wait_and_call, args, daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[tuple[Any, ...]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> dict[int, Any] | None:
    """Calls a function with each of several tuples of arguments, in threads.

    Returns the results by the index of their arguments, or `None` at once if not told to wait.
    """
    if not args_list:
        return {}
    pool = ThreadPoolExecutor(min(max_concurrent_executions, len(args_list)))
    futures = [pool.submit(fn, *args) for args in args_list]
    pool.shutdown(wait=False)
    if not block_until_all_done:
        return None
    return {index: future.result() for index, future in enumerate(futures)}
