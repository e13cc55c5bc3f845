"""Wraps optimizers of PyTorch, so that each step uses what all ranks have learned."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch

from horovod.common.build import rocm_built
from horovod.common.collectives import check_adasum
from horovod.common.process_sets import ProcessSet, global_process_set, set_size, usable_id
from horovod.common.util import Adasum, Average, Sum, split_list
from horovod.torch.adasum_optimizer import AdasumOptimizer
from horovod.torch.compression import Compression, Compressor
from horovod.torch.functions import broadcast_object
from horovod.torch.gradient_reduction import Reduction
from horovod.torch.hooked_optimizer import HookedOptimizer, check_passes
from horovod.torch.mpi_ops import (
    allgather,
    allreduce_async_,
    broadcast_,
    grouped_allreduce_async_,
    rank,
    size,
    sparse_allreduce_async,
    synchronize,
)
from horovod.torch.parameter_groups import Groups, check_groups
from horovod.torch.parameter_names import parameter_names

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "ProcessSet",
    "Sum",
    "allgather",
    "allreduce_async_",
    "broadcast_",
    "broadcast_object",
    "global_process_set",
    "grouped_allreduce_async_",
    "rank",
    "rocm_built",
    "size",
    "sparse_allreduce_async",
    "split_list",
    "synchronize",
]

_DistributedOptimizer = HookedOptimizer
_DistributedAdasumOptimizer = AdasumOptimizer


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns an optimizer that combines what all ranks have learned in each step.

    With op=Average or Sum that is their gradients, with op=Adasum what their steps would change.

    It is an instance of the wrapped optimizer's class and continues with its options and state.
    Gradients of `backward_passes_per_step` passes are added up before they are combined. `groups`,
    a number of groups or lists of parameters, makes the gradients of a group travel together. Ranks
    outside of `process_set` keep their own gradients. With Adasum `groups`, `sparse_as_dense` and
    process sets mean nothing: a step's changes are dense and travel one by one, among all ranks.
    """
    check_passes(backward_passes_per_step)
    _check_op(op, gradient_predivide_factor, process_set)
    if num_groups:
        warnings.warn(
            "the argument num_groups is deprecated; use groups", DeprecationWarning, stacklevel=2
        )
        groups = num_groups if groups is None else groups
    check_groups(groups)
    usable_id(process_set)
    names = parameter_names(optimizer, named_parameters)
    reduction = Reduction.of_gradients(
        op, compression, gradient_predivide_factor, sparse_as_dense, process_set
    )
    is_adasum = op == Adasum and set_size(process_set) > 1
    mixin = _DistributedAdasumOptimizer if is_adasum else _DistributedOptimizer
    wrapped = type(optimizer)
    distributed: Any = type(wrapped.__name__, (mixin, wrapped), {})
    result = object.__new__(distributed)
    # A learning-rate scheduler may have put its own `step` on the instance, bound to the old one.
    result.__dict__.update({k: v for k, v in vars(optimizer).items() if k != "step"})
    result.distribute(names, backward_passes_per_step, reduction, groups)
    return result


def _check_op(op: int, gradient_predivide_factor: float, process_set: ProcessSet) -> None:
    if op not in (Average, Sum, Adasum):
        raise ValueError(f"gradients are combined with op=Average, Sum or Adasum, not {op!r}")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor can only be used with op=Average")
    if op == Adasum:
        check_adasum(process_set)
