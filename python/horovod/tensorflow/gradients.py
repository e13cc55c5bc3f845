"""The gradients of the ops.

Those of allgather and broadcast are averages over the ranks, not sums: with the same loss on every
rank the factor is 1.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, registered_set, set_rank, set_size
from horovod.common.util import Average, Sum
from horovod.tensorflow import mpi_ops


def _process_set(op: Any) -> ProcessSet:
    return registered_set(op.get_attr("process_set_id"))


def _reduction(op: Any) -> dict[str, Any]:
    return {
        "op": op.get_attr("reduce_op"),
        "prescale_factor": op.get_attr("prescale_factor"),
        "postscale_factor": op.get_attr("postscale_factor"),
        "ignore_name_scope": op.get_attr("ignore_name_scope"),
        "process_set": _process_set(op),
    }


@tf.RegisterGradient("HorovodAllreduce")
def _allreduce_gradient(op: Any, gradient: tf.Tensor) -> tf.Tensor:
    return mpi_ops.allreduce_tensor(gradient, **_reduction(op))


@tf.RegisterGradient("HorovodGroupedAllreduce")
def _grouped_allreduce_gradient(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    return mpi_ops.grouped_allreduce_tensors(gradients, **_reduction(op))


def _average(op: Any, gradient: tf.Tensor) -> tf.Tensor:
    return mpi_ops.allreduce_tensor(
        gradient,
        op=Average,
        ignore_name_scope=op.get_attr("ignore_name_scope"),
        process_set=_process_set(op),
    )


def _gathered_gradient(op: Any, tensor: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """This rank's rows of the average gradient."""
    process_set = _process_set(op)
    ignore_name_scope = op.get_attr("ignore_name_scope")
    average = _average(op, gradient)
    rows = mpi_ops.allgather(
        tf.shape(tensor)[:1], ignore_name_scope=ignore_name_scope, process_set=process_set
    )
    rank = set_rank(process_set)
    start = tf.reduce_sum(rows[:rank])
    return average[start : start + rows[rank]]


@tf.RegisterGradient("HorovodAllgather")
def _allgather_gradient(op: Any, gradient: tf.Tensor) -> tf.Tensor:
    return _gathered_gradient(op, op.inputs[0], gradient)


@tf.RegisterGradient("HorovodGroupedAllgather")
def _grouped_allgather_gradient(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    return [
        _gathered_gradient(op, tensor, gradient) for tensor, gradient in zip(op.inputs, gradients)
    ]


@tf.RegisterGradient("HorovodBroadcast")
def _broadcast_gradient(op: Any, gradient: tf.Tensor) -> tf.Tensor:
    average = _average(op, gradient)
    is_root = tf.equal(mpi_ops.rank_op(), op.get_attr("root_rank"))
    return average * tf.cast(is_root, average.dtype)


@tf.RegisterGradient("HorovodAlltoall")
def _alltoall_gradient(op: Any, gradient: tf.Tensor, _splits_gradient: Any) -> list[Any]:
    rows, _ = mpi_ops.alltoall(
        gradient,
        splits=op.outputs[1],
        ignore_name_scope=op.get_attr("ignore_name_scope"),
        process_set=_process_set(op),
    )
    return [rows, None]


def _scattered_gradient(op: Any, gradient: tf.Tensor) -> tf.Tensor:
    process_set = _process_set(op)
    factor = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    if op.get_attr("reduce_op") == Sum:
        factor *= set_size(process_set)
    if factor != 1:
        gradient = gradient * tf.cast(factor, gradient.dtype)
    return mpi_ops.allgather(
        gradient, ignore_name_scope=op.get_attr("ignore_name_scope"), process_set=process_set
    )


@tf.RegisterGradient("HorovodReducescatter")
def _reducescatter_gradient(op: Any, gradient: tf.Tensor) -> tf.Tensor:
    return _scattered_gradient(op, gradient)


@tf.RegisterGradient("HorovodGroupedReducescatter")
def _grouped_reducescatter_gradient(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    return [_scattered_gradient(op, gradient) for gradient in gradients]
