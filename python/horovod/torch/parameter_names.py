"""The names by which the ranks tell the gradients of parameters apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch


def parameter_names(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
) -> dict[torch.nn.Parameter, str]:
    """The name of every parameter: the given one, or one that is the same on all ranks."""
    if named_parameters is None:
        return {
            parameter: automatic_name(number, index)
            for number, group in enumerate(optimizer.param_groups)
            for index, parameter in enumerate(group["params"])
        }
    pairs = list(named_parameters)
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            "named_parameters must be (name, parameter) pairs, such as model.named_parameters()"
        )
    counts = Counter(name for name, _ in pairs)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise ValueError(f"names of parameters must differ; given twice: {', '.join(duplicates)}")
    names = {parameter: name for name, parameter in pairs}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    unnamed = [str(id(parameter)) for parameter in parameters if parameter not in names]
    if unnamed:
        raise ValueError(
            "named_parameters does not name every parameter of the optimizer; "
            f"without a name: {', '.join(unnamed)}"
        )
    return names


def automatic_name(group: int, index: int) -> str:
    """The name of a parameter by its place in the optimizer."""
    return f"allreduce.noname.{group}.{index}"
