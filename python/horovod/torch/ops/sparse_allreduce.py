"""Allreduce of sparse tensors: their indices and values are gathered."""

from __future__ import annotations

from collections.abc import Callable

import torch

from horovod.common.handles import synchronize
from horovod.common.process_sets import ProcessSet, global_process_set, set_size
from horovod.common.util import Average, Sum
from horovod.torch.ops.allgather import allgather_async


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
