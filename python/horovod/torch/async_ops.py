"""The collectives that return a handle. A trailing underscore means in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from horovod.common import collectives
from horovod.common.collectives import Output
from horovod.common.handles import pending, synchronize, then
from horovod.common.process_sets import ProcessSet, global_process_set, set_size
from horovod.common.util import Average, Sum, handle_average_backwards_compatibility
from horovod.torch.staging import copy_into, is_on_gpu, rows_to_device, to_device, to_host
from horovod.torch.tensors import (
    from_output,
    reducible_view,
    rows_view,
    splits_list,
    start_in_place,
    view,
)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining the tensors of all ranks into a new tensor."""
    op = handle_average_backwards_compatibility(op, average)
    if is_on_gpu(tensor):
        handle = allreduce_async_(
            to_host(tensor), None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(to_device, device=tensor.device))
    source = reducible_view(tensor, op)
    result = torch.empty(tensor.shape, dtype=tensor.dtype)
    scaling = (prescale_factor, postscale_factor)
    return collectives.allreduce(
        source, view(result), name, op, scaling, process_set, lambda _: result
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts combining the tensors of all ranks in place."""
    if average is None:
        handle = start_in_place(
            tensor,
            name,
            Average if op is None else op,
            prescale_factor,
            postscale_factor,
            process_set,
        )
        if handle is not None:
            pending[handle] = tensor
            return handle
    op = handle_average_backwards_compatibility(op, average)
    if is_on_gpu(tensor):
        handle = allreduce_async_(
            to_host(tensor), None, name, op, prescale_factor, postscale_factor, process_set
        )
        return then(handle, partial(copy_into, target=tensor))
    target = reducible_view(tensor, op)
    scaling = (prescale_factor, postscale_factor)
    return collectives.allreduce(target, target, name, op, scaling, process_set, lambda _: tensor)


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts concatenating the tensors of all ranks; only their first dimensions may differ."""
    if is_on_gpu(tensor):
        handle = allgather_async(to_host(tensor), name, process_set)
        return then(handle, partial(to_device, device=tensor.device))
    dtype = tensor.dtype
    return collectives.allgather(
        rows_view(tensor), name, process_set, lambda output: from_output(output, dtype)
    )


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts copying the root's tensor into a new tensor on every rank."""
    if is_on_gpu(tensor):
        handle = broadcast_async_(to_host(tensor), root_rank, name, process_set)
        return then(handle, partial(to_device, device=tensor.device))
    view(tensor)
    result = torch.empty(tensor.shape, dtype=tensor.dtype)
    if collectives.is_root(root_rank):
        result.copy_(tensor.detach())
    return broadcast_async_(result, root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts overwriting the tensor with the root's."""
    if is_on_gpu(tensor):
        handle = broadcast_async_(to_host(tensor), root_rank, name, process_set)
        return then(handle, partial(copy_into, target=tensor))
    return collectives.broadcast(view(tensor), root_rank, name, process_set, lambda _: tensor)


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts sending `splits[r]` rows to each rank r, equal parts by default.

    `synchronize` gives the received rows and how many of them came from each rank.
    """
    if is_on_gpu(tensor):
        handle = alltoall_async(to_host(tensor), splits, name, process_set)
        return then(handle, partial(rows_to_device, device=tensor.device, splits=splits))
    dtype = tensor.dtype

    def finish(output: Output) -> tuple[torch.Tensor, torch.Tensor]:
        received_splits = torch.tensor(output.received_splits, dtype=torch.int32)
        return from_output(output, dtype), received_splits

    return collectives.alltoall(rows_view(tensor), splits_list(splits), name, process_set, finish)


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts combining the tensors of all ranks and keeping this rank's share of the rows."""
    if is_on_gpu(tensor):
        handle = reducescatter_async(
            to_host(tensor), name, op, process_set, prescale_factor, postscale_factor
        )
        return then(handle, partial(to_device, device=tensor.device))
    dtype = tensor.dtype
    reducible_view(tensor, op)
    return collectives.reducescatter(
        rows_view(tensor),
        name,
        op,
        (prescale_factor, postscale_factor),
        process_set,
        lambda output: from_output(output, dtype),
    )


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str,
    op: int,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """Starts combining sparse tensors; the function it returns waits and gives the result.

    Entries of different ranks with the same index are not added up: the result is uncoalesced.
    """
    if op not in (Average, Sum):
        raise ValueError("sparse tensors can only be combined with op=Average or op=Sum")
    if not tensor.is_coalesced():
        tensor = tensor.coalesce()
    indices = allgather_async(tensor.indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor.values().contiguous(), f"{name}.values", process_set)
    size = set_size(process_set)

    def finish() -> torch.Tensor:
        gathered_values = synchronize(values)
        gathered_indices = synchronize(indices)
        if op == Average:
            gathered_values = gathered_values / size
        return torch.sparse_coo_tensor(
            gathered_indices.t(), gathered_values, tensor.size(), check_invariants=False
        )

    return finish
