"""Python objects between ranks: pickled, then moved as bytes, without any framework.

The default names do not depend on the object: ranks may hold objects of different types, or None.
"""

from __future__ import annotations

import ctypes
from typing import Any

from horovod import _core
from horovod.common import collectives
from horovod.common.handles import View, synchronize
from horovod.common.process_sets import ProcessSet, global_process_set


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the root's object on every rank; the root gets back the very object it passed."""
    import cloudpickle

    name = "object" if name is None else name
    is_root = collectives.is_root(root_rank)
    content = bytearray(cloudpickle.dumps(obj)) if is_root else bytearray()
    length = _broadcast_length(len(content), root_rank, f"{name}.sz", process_set)
    if not is_root:
        content = bytearray(length)
    view = _bytes_view(content)
    handle = collectives.broadcast(view, root_rank, f"{name}.t", process_set, _nothing)
    synchronize(handle)
    return obj if is_root else cloudpickle.loads(content)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Returns the objects of all ranks, by rank."""
    import cloudpickle

    name = "object" if name is None else name
    content = bytearray(cloudpickle.dumps(obj))
    lengths = _allgather_length(len(content), f"{name}.sz", process_set)
    handle = collectives.allgather(_bytes_view(content), f"{name}.t", process_set, _output_bytes)
    everything = memoryview(synchronize(handle))
    objects = []
    start = 0
    for length in lengths:
        objects.append(cloudpickle.loads(everything[start : start + length]))
        start += length
    return objects


def _broadcast_length(length: int, root_rank: int, name: str, process_set: ProcessSet) -> int:
    cell = ctypes.c_int64(length)
    handle = collectives.broadcast(_cell_view(cell), root_rank, name, process_set, _nothing)
    synchronize(handle)
    return cell.value


def _allgather_length(length: int, name: str, process_set: ProcessSet) -> list[int]:
    cell = ctypes.c_int64(length)
    handle = collectives.allgather(_cell_view(cell), name, process_set, _output_bytes)
    return memoryview(synchronize(handle)).cast("q").tolist()


def _cell_view(cell: ctypes.c_int64) -> View:
    return View(ctypes.addressof(cell), collectives.dtype_code("int64"), (1,), cell)


def _bytes_view(content: bytearray) -> View:
    memory = (ctypes.c_char * len(content)).from_buffer(content)
    return View(ctypes.addressof(memory), collectives.dtype_code("uint8"), (len(content),), memory)


def _output_bytes(output: _core.Output) -> bytes:
    return ctypes.string_at(output.address, output.nbytes)


def _nothing(_output: object) -> None:
    return None
