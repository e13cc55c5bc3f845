"""Which parameters' gradients travel together, as all ranks agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional, Union

import torch

from horovod.common.objects import broadcast_object
from horovod.common.process_sets import ProcessSet
from horovod.common.util import split_list

Group = tuple[torch.nn.Parameter, ...]

Groups = Optional[Union[int, Sequence[Sequence[torch.Tensor]]]]
"""A number of groups, or the members of some of them; None makes each parameter a group."""


def check_groups(groups: Groups) -> None:
    """Raises ValueError for anything that does not describe groups."""
    if groups is None:
        return
    if isinstance(groups, (list, tuple)):
        _check_members(groups)
    elif isinstance(groups, bool) or not isinstance(groups, int) or groups <= 0:
        raise ValueError(
            f"groups must be a number greater than 0 or a list of lists of tensors, not {groups!r}"
        )


def _check_members(groups: Sequence[Sequence[torch.Tensor]]) -> None:
    seen: set[int] = set()
    for number, group in enumerate(groups):
        if not isinstance(group, (list, tuple)):
            raise ValueError(f"groups[{number}] must be a list of tensors, not {group!r}")
        for member in group:
            if not isinstance(member, torch.Tensor):
                raise ValueError(f"groups[{number}] must hold tensors, not {member!r}")
            if id(member) in seen:
                raise ValueError(f"a tensor of groups[{number}] is in the groups twice")
            seen.add(id(member))


def agree_on_groups(
    parameters: Mapping[str, torch.nn.Parameter], groups: Groups, process_set: ProcessSet
) -> list[Group]:
    """Forms groups of named parameters as the first rank of the set does.

    Parameters that are in no group are groups of their own, and so are those that the first rank
    does not have. Raises ValueError if it groups a parameter that this rank does not have.
    """
    if groups is None:
        return [(parameter,) for parameter in parameters.values()]
    names_by_group = _names_by_group(parameters, groups)
    root = process_set.ranks[0] if process_set.ranks else 0
    agreed: list[list[str]] = broadcast_object(names_by_group, root, "groups", process_set)
    missing = [name for names in agreed if len(names) > 1 for name in names]
    missing = [name for name in missing if name not in parameters]
    if missing:
        raise ValueError(
            f"rank {root} groups parameters that need no gradient on this rank: "
            f"{', '.join(missing)}"
        )
    formed = [tuple(parameters[name] for name in names if name in parameters) for names in agreed]
    mentioned = {name for names in agreed for name in names}
    alone = [(parameter,) for name, parameter in parameters.items() if name not in mentioned]
    return [group for group in formed if group] + alone


def _names_by_group(
    parameters: Mapping[str, torch.nn.Parameter], groups: int | Sequence[Sequence[torch.Tensor]]
) -> list[list[str]]:
    if isinstance(groups, int):
        return split_list(list(parameters), groups)
    names = {id(parameter): name for name, parameter in parameters.items()}
    listed = [[names.pop(id(member)) for member in g if id(member) in names] for g in groups]
    return listed + [[name] for name in names.values()]
