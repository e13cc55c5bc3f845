"""The collectives on TensorFlow tensors, one op each, without compression or sparse tensors.

They work eagerly, in a `tf.function` and in graphs of a Session, and are differentiable
(`gradients.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import _basics as _basics
from horovod.common.basics import (
    cross_rank,
    cross_size,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_enabled,
    mpi_threads_supported,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from horovod.common.build import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gpu_available,
    mpi_built,
    nccl_built,
    rocm_built,
)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
    set_size,
    usable_id,
)
from horovod.common.util import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    check_installed_version,
    check_num_rank_power_of_2,
    get_average_backwards_compatibility_fun,
    get_ext_suffix,
    handle_average_backwards_compatibility,
    num_rank_is_power_2,
)
from horovod.tensorflow import naming
from horovod.tensorflow.compatibility import _executing_eagerly as _executing_eagerly
from horovod.tensorflow.naming import normalized as _normalize_name  # noqa: F401
from horovod.tensorflow.op_library import ops

__all__ = [
    "Adasum",
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allreduce_tensor",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "ccl_built",
    "check_installed_version",
    "check_num_rank_power_of_2",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "get_average_backwards_compatibility_fun",
    "get_ext_suffix",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce_tensors",
    "grouped_reducescatter_tensors",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "num_rank_is_power_2",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter_tensor",
    "remove_process_set",
    "rocm_built",
    "set_id",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
]


def set_id(process_set: ProcessSet) -> int:
    """The number of a process set that exists; ValueError for any other."""
    number = usable_id(process_set)
    if process_set is not global_process_set:
        set_size(process_set)
    return number


def allreduce_tensor(
    tensor: Any,
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Combines dense tensors of all ranks element by element."""
    return ops.horovod_allreduce(
        tensor,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodAllreduce", name, tensor),
    )


def grouped_allreduce_tensors(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Combines several dense tensors of one type, together."""
    tensors = list(tensors)
    return ops.horovod_grouped_allreduce(
        tensors,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodGroupedAllreduce", name, *naming.ends(tensors)),
    )


_allreduce = allreduce_tensor
_grouped_allreduce = grouped_allreduce_tensors


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Concatenates the tensors of all ranks; only their first dimensions may differ."""
    return ops.horovod_allgather(
        tensor,
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodAllgather", name, tensor),
    )


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Concatenates several tensors of one type over all ranks, together."""
    tensors = list(tensors)
    if not tensors:
        return tensors
    return ops.horovod_grouped_allgather(
        tensors,
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodGroupedAllgather", name, *naming.ends(tensors)),
    )


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Returns the root's tensor; the tensor passed on the other ranks gives shape and type."""
    return ops.horovod_broadcast(
        tensor,
        root_rank=root_rank,
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodBroadcast", name, tensor),
    )


def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Overwrites variables with the root's and returns their new values."""
    variables = list(variables)
    if len({_is_reference(variable) for variable in variables}) > 1:
        raise ValueError("either all variables or none of them may be reference variables")
    values = []
    for variable in variables:
        parts = [name or "HorovodBroadcast", naming.label(variable)]
        own_name = "_".join(naming.normalized(part) for part in parts)
        received = broadcast(variable, root_rank, own_name, process_set=process_set)
        assigned = variable.assign(received)
        values.append(tf.convert_to_tensor(variable if assigned is None else assigned))
    return values


def _is_reference(variable: Any) -> bool:
    """Whether this is a variable from before resources: its tensor is a reference to memory."""
    return bool(getattr(getattr(variable, "dtype", None), "_is_ref_dtype", False))


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends `splits[r]` rows to each rank r (equal parts by default), returns the received rows.

    With splits the result is a pair: the rows, and how many of them came from each rank.
    """
    rows, received_splits = ops.horovod_alltoall(
        tensor,
        splits=tf.convert_to_tensor([] if splits is None else splits, dtype=tf.int32),
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodAlltoall", name, tensor),
    )
    return rows if splits is None else (rows, received_splits)


def reducescatter_tensor(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """Combines the tensors of all ranks and returns this rank's share of the rows."""
    return ops.horovod_reducescatter(
        tensor,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodReducescatter", name, tensor),
    )


def grouped_reducescatter_tensors(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    """Combines several tensors of one type and returns this rank's share of the rows of each."""
    tensors = list(tensors)
    return ops.horovod_grouped_reducescatter(
        tensors,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        ignore_name_scope=ignore_name_scope,
        process_set_id=set_id(process_set),
        **naming.arguments("HorovodGroupedReducescatter", name, *naming.ends(tensors)),
    )


def join() -> tf.Tensor:
    """Waits until every rank has called this, taking part in what the others still allreduce.

    Returns the rank that joined last, as an int32 scalar.
    """
    with tf.control_dependencies(_collectives_so_far()):
        return ops.horovod_join()


def _collectives_so_far() -> list[tf.Operation]:
    """What a function that is being traced has asked for already, in which order does not matter
    except for a join or a barrier that follows.
    """
    if tf.executing_eagerly() or not tf.inside_function():
        return []
    graph = tf.compat.v1.get_default_graph()
    return [known for known in graph.get_operations() if known.type.startswith("Horovod")]


def barrier(process_set: ProcessSet = global_process_set, name: str | None = None) -> Any:
    """Waits until every rank has arrived; in a Session's graph, an operation that does."""
    with tf.control_dependencies(_collectives_so_far()):
        meeting = ops.horovod_barrier(process_set_id=set_id(process_set), name=name)
    return None if tf.inside_function() else meeting


def rank_op(name: str | None = None) -> tf.Tensor:
    """Number of this process in the job, found when it runs."""
    return ops.horovod_rank(name=name)


def local_rank_op(name: str | None = None) -> tf.Tensor:
    """Number of this process on its host, found when it runs."""
    return ops.horovod_local_rank(name=name)


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Number of ranks of a process set, found when it runs."""
    return ops.horovod_size(process_set_id=process_set_id, name=name)


def local_size_op(name: str | None = None) -> tf.Tensor:
    """Number of processes on this host, found when it runs."""
    return ops.horovod_local_size(name=name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """1 if this process is in a process set, 0 if it is not, found when it runs."""
    return ops.horovod_process_set_included(process_set_id=process_set_id, name=name)


for _op in (
    "HorovodJoin",
    "HorovodRank",
    "HorovodLocalRank",
    "HorovodSize",
    "HorovodLocalSize",
    "HorovodProcessSetIncluded",
):
    tf.no_gradient(_op)
