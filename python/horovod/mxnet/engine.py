"""Arrays in and out of the operations that run on MXNet's engine.

Owns what differs between versions of MXNet, and the errors that its engine raises. Arrays on a GPU
are copied to the host and back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import mxnet as mx
from mxnet.base import _LIB, MXNetError, register_error
from mxnet.ndarray import NDArray

from horovod.common import basics, framework_ops
from horovod.common.exceptions import HorovodInternalError

TESTED = "1.8.0, 1.9.1 and 2.0.0b1"
_CLASS = "HorovodInternalError"
_EXIT_SECONDS = 30.0


@register_error(_CLASS)
class CollectiveError(HorovodInternalError, MXNetError):
    """A collective operation failed. MXNet raises it where one of its arrays is waited for."""

    def __init__(self, message: str = "") -> None:
        prefix = f"{_CLASS}: "
        super().__init__(message[len(prefix) :] if message.startswith(prefix) else message)


def _load() -> int:
    try:
        naive = os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine"
        return framework_ops.mxnet_load(_LIB._name, naive)
    except ImportError as error:
        raise ImportError(
            f"horovod.mxnet cannot use MXNet {mx.__version__}: {error} (tested: {TESTED})"
        ) from error


_load()
_HAS_GPUS = mx.context.num_gpus() > 0


def run(
    kind: str,
    arrays: Sequence[Any],
    name: object,
    priority: int,
    process_set: object,
    *,
    in_place: bool = False,
    grouped: bool = False,
    op: int = 1,
    scaling: tuple[float, float] = (1.0, 1.0),
    root: int = 0,
    splits: Sequence[int] = (),
) -> tuple[list[Any], list[int]]:
    """Pushes an operation, and waits unless its results have the shapes of its inputs.

    Returns the results and the rows received from each rank.
    """
    received: list[int] = []

    def push(arrays: Sequence[Any]) -> list[Any]:
        nonlocal received
        handles = [array.handle.value for array in arrays]
        try:
            outputs, received = framework_ops.mxnet_collective(
                *(kind, name, grouped, handles, in_place, op, *scaling, root, splits),
                *(process_set, priority),
            )
        except ValueError:
            # If an input could not be computed, this raises the reason.
            for array in arrays:
                array.wait_to_read()
            raise
        return list(arrays) if in_place else _wrapped(outputs, arrays)

    if _HAS_GPUS and any(map(is_on_gpu, arrays)):
        return _by_way_of_host(push, arrays, in_place), received
    return push(arrays), received


def is_on_gpu(array: Any) -> bool:
    """Whether an array is not in the memory of the host."""
    return array.context.device_type == "gpu"


def _by_way_of_host(
    push: Callable[[Sequence[Any]], list[Any]], arrays: Sequence[Any], in_place: bool
) -> list[Any]:
    """Does with copies on the host what is to be done with arrays, and copies the results back."""
    staged = [array.copyto(mx.cpu()) if is_on_gpu(array) else array for array in arrays]
    results = push(staged)
    if not in_place:
        return [result.as_in_context(array.context) for result, array in zip(results, arrays)]
    for result, array in zip(results, arrays):
        if result is not array:
            result.copyto(array)
    return list(arrays)


def _wrapped(handles: Sequence[int], like: Sequence[Any]) -> list[Any]:
    """Arrays of the same classes as others; each frees its handle in the end."""
    return [type(array)(ctypes.c_void_p(handle)) for handle, array in zip(handles, like)]


def finish_at_exit() -> None:
    """Lets the operations of a program that ends well end, too, before the rank leaves the job.

    Programs need not wait for the last step. If other ranks do not take part any more this ends
    after a while, and the operations fail.
    """
    if basics.is_initialized() and basics._uncaught_exception() is None:
        waiting = threading.Thread(target=_wait_for_all, name="hvd-mxnet-exit", daemon=True)
        waiting.start()
        waiting.join(_EXIT_SECONDS)


def _wait_for_all() -> None:
    with contextlib.suppress(MXNetError):
        mx.nd.waitall()


def is_array(value: object) -> bool:
    """Whether a value is an array of MXNet."""
    return isinstance(value, NDArray)
