"""Python objects between ranks: pickled, then moved as bytes, without any framework.

Each one travels with a tag that proves which rank of this job has sent it, and for which call. It
is checked before anything is unpickled, because unpickling executes what it is given.

The default names do not depend on the object: ranks may hold objects of different types, or None.
"""

from __future__ import annotations

import ctypes
from typing import Any

from horovod import _core
from horovod.common import collectives
from horovod.common.exceptions import HorovodInternalError
from horovod.common.handles import View, synchronize
from horovod.common.process_sets import ProcessSet, global_process_set, usable_id


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the root's object on every rank; the root gets back the very object it passed."""
    import cloudpickle

    name = "object" if name is None else name
    scope = _scope("broadcast", name, process_set)
    is_root = collectives.is_root(root_rank)
    content = _signed(scope, cloudpickle.dumps(obj)) if is_root else bytearray()
    length = _broadcast_length(len(content), root_rank, f"{name}.sz", process_set)
    if not is_root:
        content = _room(length, scope)
    view = _bytes_view(content)
    handle = collectives.broadcast(view, root_rank, f"{name}.t", process_set, _nothing)
    synchronize(handle)
    pickled = b"" if is_root else _checked(scope, root_rank, bytes(content))
    _core.object_done(scope)
    return obj if is_root else cloudpickle.loads(pickled)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Returns the objects of all ranks, by rank."""
    import cloudpickle

    name = "object" if name is None else name
    scope = _scope("allgather", name, process_set)
    content = _signed(scope, cloudpickle.dumps(obj))
    lengths = _allgather_length(len(content), f"{name}.sz", process_set)
    handle = collectives.allgather(_bytes_view(content), f"{name}.t", process_set, _output_bytes)
    everything = memoryview(synchronize(handle))
    pickled = []
    start = 0
    ranks = _core.process_set_ranks(usable_id(process_set))
    for rank, length in zip(ranks, lengths):
        pickled.append(_checked(scope, rank, bytes(everything[start : start + length])))
        start += length
    _core.object_done(scope)
    return [cloudpickle.loads(each) for each in pickled]


_TAG_BYTES = 32


def _scope(operation: str, name: str, process_set: ProcessSet) -> str:
    return f"{operation}_object {name!r} of process set {usable_id(process_set)}"


def _signed(scope: str, pickled: bytes) -> bytearray:
    return bytearray(pickled + _core.sign_object(scope, pickled))


def _checked(scope: str, rank: int, content: bytes) -> bytes:
    """What was pickled, if `rank` has sent it for this call."""
    pickled, tag = content[:-_TAG_BYTES], content[-_TAG_BYTES:]
    _core.check_object(scope, rank, pickled, tag)
    return pickled


def _room(length: int, scope: str) -> bytearray:
    """Memory for an object whose length has arrived, which may not be true either."""
    try:
        return bytearray(length)
    except (MemoryError, OverflowError, ValueError):
        raise HorovodInternalError(
            f"the length of the object for {scope} arrived as {length} bytes; the data connection "
            "is damaged or changed on its way, or the object is larger than this host's memory"
        ) from None


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
