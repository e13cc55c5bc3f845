"""Reductions as users call them: with compression, on dense and on sparse tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.collectives import check_adasum
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import (
    Adasum,
    Average,
    Sum,
    handle_average_backwards_compatibility,
)
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compression import Compression, Compressor


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Combines the tensors of all ranks element by element.

    The rows of `tf.IndexedSlices` are gathered instead, which has the same effect when they are
    added to a tensor.
    """
    op = handle_average_backwards_compatibility(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        _require_gatherable(op, prescale_factor, postscale_factor)
        with tf.device(device_sparse):
            return _gather_slices([tensor], op, name, ignore_name_scope, process_set)[0]
    _require_adasum_possible(op, process_set)
    with tf.device(device_dense):
        compressed, ctx = compression.compress(tensor)
        reduced = mpi_ops.allreduce_tensor(
            compressed,
            name,
            op,
            prescale_factor,
            postscale_factor,
            ignore_name_scope,
            process_set,
        )
        return compression.decompress(reduced, ctx)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Combines several tensors, together; dense and sparse ones may be mixed."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = list(tensors)
    slices = [tensor for tensor in tensors if isinstance(tensor, tf.IndexedSlices)]
    dense = [tensor for tensor in tensors if not isinstance(tensor, tf.IndexedSlices)]
    if slices:
        _require_gatherable(op, prescale_factor, postscale_factor)
    if dense:
        _require_adasum_possible(op, process_set)
    with tf.device(device_sparse):
        gathered = iter(_gather_slices(slices, op, name, ignore_name_scope, process_set))

    def reduce(group: list[Any], group_name: str | None) -> list[Any]:
        return mpi_ops.grouped_allreduce_tensors(
            group,
            group_name,
            op,
            prescale_factor,
            postscale_factor,
            ignore_name_scope,
            process_set,
        )

    with tf.device(device_dense):
        reduced = iter(_by_type(dense, compression, name, reduce))
    return [
        next(gathered if isinstance(tensor, tf.IndexedSlices) else reduced) for tensor in tensors
    ]


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """Combines the tensors of all ranks (Average or Sum) and returns this rank's share of rows."""
    with tf.device(device_dense):
        compressed, ctx = compression.compress(tensor)
        reduced = mpi_ops.reducescatter_tensor(
            compressed,
            name,
            op,
            ignore_name_scope,
            process_set,
            prescale_factor,
            postscale_factor,
        )
        return compression.decompress(reduced, ctx)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    """Combines several tensors, together, and returns this rank's share of the rows of each."""

    def reduce(group: list[Any], name: str | None) -> list[Any]:
        return mpi_ops.grouped_reducescatter_tensors(
            group, name, op, False, process_set, prescale_factor, postscale_factor
        )

    with tf.device(device_dense):
        return _by_type(list(tensors), compression, None, reduce)


def _by_type(
    tensors: list[Any],
    compression: type[Compressor],
    name: str | None,
    reduce: Callable[[list[Any], str | None], list[Any]],
) -> list[Any]:
    """Reduces a list in as many groups as it has types, because an op takes only one of them."""
    compressed = [compression.compress(tensor) for tensor in tensors]
    places: dict[tf.DType, list[int]] = {}
    for place, (tensor, _) in enumerate(compressed):
        places.setdefault(tf.as_dtype(tensor.dtype).base_dtype, []).append(place)
    results: list[Any] = [None] * len(tensors)
    for dtype, group in places.items():
        group_name = name if name is None or len(places) == 1 else f"{name}_{dtype.name}"
        reduced = reduce([compressed[place][0] for place in group], group_name)
        for place, tensor in zip(group, reduced):
            results[place] = compression.decompress(tensor, compressed[place][1])
    return results


def _gather_slices(
    slices: list[tf.IndexedSlices],
    op: int,
    name: str | None,
    ignore_name_scope: bool,
    process_set: ProcessSet,
) -> list[tf.IndexedSlices]:
    def gather(tensors: list[Any], part: str) -> list[Any]:
        def together(group: list[Any], group_name: str | None) -> list[Any]:
            if len(group) == 1:
                only = group[0]
                return [mpi_ops.allgather(only, group_name, ignore_name_scope, process_set)]
            return mpi_ops.grouped_allgather(group, group_name, ignore_name_scope, process_set)

        part_name = None if name is None else f"{name}_{part}"
        return _by_type(tensors, Compression.none, part_name, together)

    values = gather([part.values for part in slices], "values")
    indices = gather([part.indices for part in slices], "indices")
    if op == Average and slices:
        size = mpi_ops.size_op(mpi_ops.set_id(process_set))
        values = [value / tf.cast(size, value.dtype) for value in values]
    return [
        tf.IndexedSlices(value, index, dense_shape=part.dense_shape)
        for value, index, part in zip(values, indices, slices)
    ]


def _require_gatherable(op: int, prescale_factor: float, postscale_factor: float) -> None:
    if op == Adasum:
        raise NotImplementedError(
            "Adasum does not work on tf.IndexedSlices; use sparse_as_dense=True"
        )
    if op not in (Sum, Average):
        raise NotImplementedError("tf.IndexedSlices can only be reduced by hvd.Sum or hvd.Average")
    if prescale_factor != 1.0 or postscale_factor != 1.0:
        raise NotImplementedError("tf.IndexedSlices cannot be reduced with scaling factors")


def _require_adasum_possible(op: int, process_set: ProcessSet) -> None:
    if op == Adasum:
        check_adasum(process_set, "for all ranks, not for a process set")
