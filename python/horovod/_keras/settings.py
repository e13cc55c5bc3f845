"""What users choose about a distributed optimizer, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from horovod.common.gradient_options import check_groups, check_predivide_factor
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
        check_predivide_factor(self.gradient_predivide_factor, self.op)
        check_groups(self.groups)
        if self.backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step must be above 0, not {self.backward_passes_per_step}"
            )
