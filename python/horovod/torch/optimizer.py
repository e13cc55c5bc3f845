"""The optimizer that combines the gradients of all ranks before each step.

A hook on every parameter starts an allreduce as soon as its gradient is complete, or those of all
parameters of its group are, so that gradients travel while the backward pass goes on; `step` waits
for them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from horovod.common.process_sets import ProcessSet, global_process_set, set_size, usable_id
from horovod.common.util import Adasum, Average, Sum
from horovod.torch.compression import Compression, Compressor
from horovod.torch.gradient_reduction import Finish, Reduction
from horovod.torch.parameter_groups import Group, Groups, agree_on_groups, check_groups


class _DistributedOptimizer(torch.optim.Optimizer):
    """The part put in front of the wrapped optimizer's class; `super()` is that class."""

    _names: dict[torch.nn.Parameter, str]
    _reduction: Reduction
    _group_of: dict[torch.nn.Parameter, Group]
    _backward_passes: int
    _passes_left: dict[torch.nn.Parameter, int]
    _started: dict[torch.nn.Parameter, Finish]
    """By the first parameter of a group."""
    _synchronized: bool
    _should_synchronize: bool

    def _distribute(
        self,
        names: dict[torch.nn.Parameter, str],
        passes: int,
        reduction: Reduction,
        groups: Groups,
    ) -> None:
        self._names = names
        self._reduction = reduction
        self._group_of = {}
        self._backward_passes = passes
        self._passes_left = {}
        self._started = {}
        self._synchronized = False
        self._should_synchronize = True
        if self._combines():
            named = {names[p]: p for p in self._parameters() if p.requires_grad}
            for group in agree_on_groups(named, groups, reduction.process_set):
                self._register_hooks(group)

    def _combines(self) -> bool:
        """Whether there is anybody to combine gradients with."""
        process_set = self._reduction.process_set
        return bool(process_set.included()) and set_size(process_set) > 1

    def _parameters(self) -> list[torch.nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _register_hooks(self, group: Group) -> None:
        for parameter in group:
            self._group_of[parameter] = group
            self._passes_left[parameter] = self._backward_passes
            parameter.register_post_accumulate_grad_hook(self._gradient_is_ready)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, whose gradients are combined like the others'."""
        super().add_param_group(param_group)
        number = len(self.param_groups) - 1
        for index, parameter in enumerate(self.param_groups[number]["params"]):
            self._names.setdefault(parameter, _automatic_name(number, index))
            if self._combines() and parameter.requires_grad and parameter not in self._group_of:
                self._register_hooks((parameter,))

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes add up before gradients are combined."""
        _check_passes(passes)
        self._backward_passes = passes
        for parameter in self._passes_left:
            self._passes_left[parameter] = passes

    def load_state_dict(self, state_dict: Any) -> None:
        """Loads a state; gradients that are being combined are forgotten."""
        self._started.clear()
        self._synchronized = False
        self.set_backward_passes_per_step(self._backward_passes)
        super().load_state_dict(state_dict)

    def _gradient_is_ready(self, parameter: torch.nn.Parameter) -> None:
        group = self._group_of[parameter]
        if group[0] in self._started or self._passes_left[parameter] <= 0:
            raise AssertionError(
                "gradients were computed more than backward_passes_per_step times before "
                "step() or synchronize(); raise backward_passes_per_step to add up gradients"
            )
        if parameter.grad is not None and parameter.grad.requires_grad:
            raise AssertionError("gradients of gradients cannot be combined by this optimizer")
        self._passes_left[parameter] -= 1
        if all(self._passes_left[member] == 0 for member in group):
            self._start(group)

    def _start(self, group: Group) -> None:
        named = [(self._names[parameter], parameter) for parameter in group]
        self._started[group[0]] = self._reduction.start(named)

    def synchronize(self) -> None:
        """Combines the gradients that have not been, and waits for all of them.

        A parameter without gradient takes part with zeros: other ranks may have one.
        """
        for group in self._group_of.values():
            if group[0] not in self._started:
                self._start(group)
        try:
            for finish in self._started.values():
                finish()
        finally:
            self._started.clear()
            self.set_backward_passes_per_step(self._backward_passes)
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Makes `step` use the gradients as they are, after a call of `synchronize`."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Combines the gradients of all ranks, then lets the wrapped optimizer do its step.

        With a closure, which computes gradients itself, they are combined after each call of it.
        """
        if closure is not None:
            return super().step(self._synchronizing(closure))
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() after "
                    "optimizer.synchronize(): the gradients are combined a second time. "
                    "Put the step into `with optimizer.skip_synchronize():`",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return super().step()

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        if self._started:
            self.synchronize()

        def compute_and_combine() -> Any:
            loss = closure()
            if self._should_synchronize:
                self.synchronize()
            self._synchronized = False
            return loss

        return compute_and_combine

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients; not allowed while they are being combined."""
        if self._started:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(), while gradients are being combined"
            )
        super().zero_grad(set_to_none)


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
    """Returns an optimizer that averages (or sums) the gradients of all ranks before each step.

    It is an instance of the wrapped optimizer's class and continues with its options and state.
    Gradients of `backward_passes_per_step` passes are added up before they are combined. `groups`,
    a number of groups or lists of parameters, makes the gradients of a group travel together. Ranks
    outside of `process_set` keep their own gradients.
    """
    _check_passes(backward_passes_per_step)
    _check_op(op, gradient_predivide_factor)
    if num_groups:
        warnings.warn(
            "the argument num_groups is deprecated; use groups", DeprecationWarning, stacklevel=2
        )
        groups = num_groups if groups is None else groups
    check_groups(groups)
    usable_id(process_set)
    names = _parameter_names(optimizer, named_parameters)
    reduction = Reduction(
        op,
        compression,
        1.0 / gradient_predivide_factor,
        gradient_predivide_factor,
        sparse_as_dense,
        process_set,
    )
    wrapped = type(optimizer)
    distributed: Any = type(wrapped.__name__, (_DistributedOptimizer, wrapped), {})
    result = object.__new__(distributed)
    # A learning-rate scheduler may have put its own `step` on the instance, bound to the old one.
    result.__dict__.update({k: v for k, v in vars(optimizer).items() if k != "step"})
    result._distribute(names, backward_passes_per_step, reduction, groups)
    return result


def _check_passes(passes: int) -> None:
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step must be greater than 0, not {passes}")


def _check_op(op: int, gradient_predivide_factor: float) -> None:
    if op == Adasum:
        raise NotImplementedError(
            "DistributedOptimizer does not support Adasum yet; use Average or Sum"
        )
    if op not in (Average, Sum):
        raise ValueError(f"gradients are combined with op=Average or op=Sum, not {op!r}")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor can only be used with op=Average")


def _parameter_names(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
) -> dict[torch.nn.Parameter, str]:
    if named_parameters is None:
        return {
            parameter: _automatic_name(number, index)
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


def _automatic_name(group: int, index: int) -> str:
    return f"allreduce.noname.{group}.{index}"
