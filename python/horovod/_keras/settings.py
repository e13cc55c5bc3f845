"""What users choose about a distributed optimizer, checked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from horovod.common.build import rocm_built
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average, Sum


@dataclass(frozen=True)
class Settings:
    """The arguments of `DistributedOptimizer`. Belongs to a class, so that copies keep it."""

    compression: Any
    name: str | None = None
    device_dense: str = ""
    device_sparse: str = ""
    sparse_as_dense: bool = False
    gradient_predivide_factor: float = 1.0
    op: int = Average
    groups: Any = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    backward_passes_per_step: int = 1
    average_aggregated_gradients: bool = False

    def __post_init__(self) -> None:
        if self.op not in (Average, Sum):
            raise ValueError("op must be hvd.Average or hvd.Sum with a Keras optimizer")
        if self.gradient_predivide_factor != 1.0:
            if rocm_built():
                raise ValueError("gradient_predivide_factor is not possible with ROCm")
            if self.op != Average:
                raise ValueError("gradient_predivide_factor needs op=hvd.Average")
        if self.groups is not None and not (
            isinstance(self.groups, list) or (type(self.groups) is int and self.groups > 0)
        ):
            raise ValueError(
                "groups is a list of lists of variables or a number of groups above 0, "
                f"not {self.groups!r}"
            )
        if self.backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step must be above 0, not {self.backward_passes_per_step}"
            )


def groups_argument(num_groups: int, groups: Any) -> Any:
    """The groups that are asked for, where `num_groups` is the old way to ask."""
    if num_groups == 0:
        return groups
    warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=3)
    return num_groups if groups is None else groups
