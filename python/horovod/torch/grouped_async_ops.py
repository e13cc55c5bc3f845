"""The collectives on groups of tensors that return a handle, one for the whole group.

The tensors of a group start together. They may have different types and shapes; results are lists
in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from horovod.common import grouped
from horovod.common.collectives import Output
from horovod.common.handles import Finish, then
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average, handle_average_backwards_compatibility
from horovod.torch.staging import all_copied_into, all_to_device, group_device, to_host
from horovod.torch.tensors import from_output, reducible_view, rows_view, view


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining each tensor of the group into a new tensor."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = grouped.tensor_list(tensors)
    device = group_device(tensors)
    if device is not None:
        hosts = [to_host(tensor) for tensor in tensors]
        handle = grouped_allreduce_async_(
            hosts, None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(all_to_device, device=device))
    sources = [reducible_view(tensor, op) for tensor in tensors]
    results = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in tensors]
    return grouped.grouped_allreduce(
        sources,
        [view(result) for result in results],
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        [_giving(result) for result in results],
    )


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining each tensor of the group in place."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = grouped.tensor_list(tensors)
    if group_device(tensors) is not None:
        hosts = [to_host(tensor) for tensor in tensors]
        handle = grouped_allreduce_async_(
            hosts, None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(all_copied_into, targets=tensors))
    targets = [reducible_view(tensor, op) for tensor in tensors]
    scaling = (prescale_factor, postscale_factor)
    finishes = [_giving(tensor) for tensor in tensors]
    return grouped.grouped_allreduce(targets, targets, name, op, scaling, process_set, finishes)


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts concatenating each tensor of the group; only first dimensions may differ."""
    tensors = grouped.tensor_list(tensors)
    device = group_device(tensors)
    if device is not None:
        hosts = [to_host(tensor) for tensor in tensors]
        handle = grouped_allgather_async(hosts, name, process_set)
        return then(handle, partial(all_to_device, device=device))
    sources = [rows_view(tensor) for tensor in tensors]
    finishes = [_received(tensor.dtype) for tensor in tensors]
    return grouped.grouped_allgather(sources, name, process_set, finishes)


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts combining each tensor of the group and keeping this rank's shares of the rows."""
    tensors = grouped.tensor_list(tensors)
    device = group_device(tensors)
    if device is not None:
        hosts = [to_host(tensor) for tensor in tensors]
        handle = grouped_reducescatter_async(
            hosts, name, op, process_set, prescale_factor, postscale_factor
        )
        return then(handle, partial(all_to_device, device=device))
    sources = [rows_view(tensor) for tensor in tensors]
    for tensor in tensors:
        reducible_view(tensor, op)
    scaling = (prescale_factor, postscale_factor)
    finishes = [_received(tensor.dtype) for tensor in tensors]
    return grouped.grouped_reducescatter(sources, name, op, scaling, process_set, finishes)


def _giving(tensor: torch.Tensor) -> Finish:
    return lambda _: tensor


def _received(dtype: torch.dtype) -> Finish:
    def finish(output: Output) -> torch.Tensor:
        return from_output(output, dtype)

    return finish
