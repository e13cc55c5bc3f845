"""Options of distributed optimizers and gradient tapes for TensorFlow and Keras, checked.

Owns the rules for `gradient_predivide_factor`, `groups` and `num_groups`. Must not know how
gradients are reduced, nor any framework.
"""

from __future__ import annotations

import warnings
from typing import Any

from horovod.common.build import rocm_built
from horovod.common.util import Average


def check_predivide_factor(factor: float, op: int) -> None:
    """Raises ValueError if the division of the average cannot be split in two like this."""
    if factor == 1.0:
        return
    if rocm_built():
        raise ValueError("gradient_predivide_factor is not possible with ROCm")
    if op != Average:
        raise ValueError("gradient_predivide_factor needs op=hvd.Average")


def check_groups(groups: Any) -> None:
    """Raises ValueError for anything that does not describe groups of variables."""
    if groups is None or isinstance(groups, list) or (is_group_count(groups) and groups > 0):
        return
    raise ValueError(
        f"groups is a list of lists of variables or a number of groups above 0, not {groups!r}"
    )


def is_group_count(groups: Any) -> bool:
    """Whether groups are given by their number."""
    return isinstance(groups, int) and not isinstance(groups, bool)


def groups_argument(num_groups: int, groups: Any) -> Any:
    """The requested groups; `num_groups` is deprecated."""
    if num_groups == 0:
        return groups
    warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=3)
    return num_groups if groups is None else groups
