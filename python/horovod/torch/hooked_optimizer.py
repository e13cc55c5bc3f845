"""The optimizer that combines the gradients of all ranks before each step.

A hook on every parameter starts an allreduce as soon as its gradient is complete, or those of all
parameters of its group are, so that gradients travel while the backward pass goes on; `step` waits
for them.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from horovod.common.elastic import is_elastic
from horovod.common.process_sets import ProcessSet, global_process_set, set_size
from horovod.common.util import Average
from horovod.torch.bucket import Bucket
from horovod.torch.compression import Compressor
from horovod.torch.gradient_reduction import Reduction
from horovod.torch.parameter_groups import Group, Groups, agree_on_groups
from horovod.torch.parameter_names import automatic_name, parameter_names

STARTED_TOGETHER = 256 << 10
"""Bytes of gradients that are complete before their operations are started."""


def check_passes(passes: int) -> None:
    """Raises ValueError for a number of backward passes that makes no sense."""
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step must be greater than 0, not {passes}")


class HookedOptimizer(torch.optim.Optimizer):
    """The part put in front of the wrapped optimizer's class; `super()` is that class."""

    _parameter_names: dict[torch.nn.Parameter, str]
    _reduction: Reduction
    backward_passes_per_step: int
    _buckets: list[Bucket]
    _requires_update: set[torch.nn.Parameter]
    _grad_accs: list[Any]
    _complete: list[Bucket]
    """Small gradients that are to be started together."""
    _complete_bytes: int
    _synchronized: bool
    _should_synchronize: bool

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
        compression: type[Compressor],
        backward_passes_per_step: int = 1,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: Groups = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """For programs that derive from this class; `DistributedOptimizer` needs no new object."""
        plain: Any = super()
        plain.__init__(params)
        self.distribute(
            parameter_names(self, named_parameters),
            backward_passes_per_step,
            Reduction.of_gradients(
                op, compression, gradient_predivide_factor, sparse_as_dense, process_set
            ),
            groups,
        )

    def distribute(
        self,
        names: dict[torch.nn.Parameter, str],
        passes: int,
        reduction: Reduction,
        groups: Groups,
    ) -> None:
        """Adds what is ours to an instance that is otherwise the wrapped optimizer's."""
        self._parameter_names = names
        self._reduction = reduction
        self.backward_passes_per_step = passes
        self._buckets = []
        self._requires_update = set()
        self._grad_accs = []
        self._complete = []
        self._complete_bytes = 0
        self._synchronized = False
        self._should_synchronize = True
        if self._combines():
            named = {names[p]: p for p in self._parameters() if p.requires_grad}
            for group in agree_on_groups(named, groups, reduction.process_set):
                self._register_hooks(group)

    def _combines(self) -> bool:
        """Whether there are other ranks to combine gradients with, or may be after a reset."""
        process_set = self._reduction.process_set
        return bool(process_set.included()) and (is_elastic() or set_size(process_set) > 1)

    def _parameters(self) -> list[torch.nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _register_hooks(self, group: Group) -> None:
        named = [(self._parameter_names[parameter], parameter) for parameter in group]
        bucket = Bucket(named, self.backward_passes_per_step)
        self._buckets.append(bucket)
        self._requires_update.update(group)
        # Hooks live as long as the parameters; they must not keep an optimizer alive, nor act for
        # one that was given up for another.
        optimizer = weakref.ref(self)
        for index, parameter in enumerate(group):
            hook = partial(_gradient_is_ready, optimizer, bucket, index)
            self._call_when_accumulated(parameter, hook)

    def _call_when_accumulated(
        self, parameter: torch.nn.Parameter, hook: Callable[[torch.nn.Parameter], None]
    ) -> None:
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            parameter.register_post_accumulate_grad_hook(hook)
            return
        # PyTorch 2.0: a hook on what adds to the gradient, which lives as long as it is kept.
        node: Any = parameter.expand_as(parameter).grad_fn
        accumulator = node.next_functions[0][0]
        accumulator.register_hook(lambda *_: hook(parameter))
        self._grad_accs.append(accumulator)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, whose gradients are combined like the others'."""
        super().add_param_group(param_group)
        if not hasattr(self, "_reduction"):
            return  # called while the wrapped optimizer is being made
        number = len(self.param_groups) - 1
        for index, parameter in enumerate(self.param_groups[number]["params"]):
            self._parameter_names.setdefault(parameter, automatic_name(number, index))
            is_new = parameter not in self._requires_update
            if is_new and self._combines() and parameter.requires_grad:
                self._register_hooks((parameter,))

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes add up before gradients are combined."""
        check_passes(passes)
        self.backward_passes_per_step = passes
        for bucket in self._buckets:
            bucket.expect(passes)

    def load_state_dict(self, state_dict: Any) -> None:
        """Loads a state; gradients that are being combined are forgotten."""
        for bucket in self._buckets:
            bucket.finish = None
        self._forget_complete()
        self._synchronized = False
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        super().load_state_dict(state_dict)

    def _start_soon(self, bucket: Bucket) -> None:
        """Starts gradients a few at a time, each of which would otherwise wake the engine."""
        self._complete.append(bucket)
        self._complete_bytes += bucket.nbytes
        if self._complete_bytes >= STARTED_TOGETHER or len(bucket.named) > 1:
            for complete in self._complete:
                self._start(complete)
            self._forget_complete()

    def _forget_complete(self) -> None:
        self._complete.clear()
        self._complete_bytes = 0

    def _start(self, bucket: Bucket) -> None:
        bucket.start(self._reduction)

    def _allreduce_grad_async(self, parameter: torch.nn.Parameter) -> tuple[Any, Any]:
        """Starts combining one gradient, for programs that do so themselves.

        Returns a handle, or a function that waits if the gradient is sparse, and what the
        compression needs to undo its work. `step` knows nothing of it.
        """
        return self._reduction.start_alone(self._parameter_names[parameter], parameter)

    def _is_combining(self) -> bool:
        return bool(self._complete) or any(bucket.finish for bucket in self._buckets)

    def synchronize(self) -> None:
        """Combines the gradients that have not been, and waits for all of them.

        A parameter without gradient takes part with zeros: other ranks may have one.
        """
        self._finish_all()
        self._synchronized = True

    def _finish_all(self) -> None:
        self._forget_complete()
        for bucket in self._buckets:
            if bucket.finish is None:
                self._start(bucket)
        try:
            for bucket in self._buckets:
                if bucket.finish is not None:
                    bucket.finish()
        finally:
            for bucket in self._buckets:
                bucket.finish = None
                bucket.expect(self.backward_passes_per_step)

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
        if self._is_combining():
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
        if self._is_combining():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(), while gradients are being combined"
            )
        super().zero_grad(set_to_none)


def _gradient_is_ready(
    reference: weakref.ref[HookedOptimizer],
    bucket: Bucket,
    index: int,
    parameter: torch.nn.Parameter,
) -> None:
    """The hook: called when the gradient of a bucket's parameter is complete."""
    optimizer = reference()
    if optimizer is None:
        return
    passes_left = bucket.passes_left[index]
    if bucket.finish is not None or passes_left <= 0:
        raise AssertionError(
            "gradients were computed more than backward_passes_per_step times before "
            "step() or synchronize(); raise backward_passes_per_step to add up gradients"
        )
    gradient = parameter.grad
    if gradient is not None and gradient.requires_grad:
        raise AssertionError("gradients of gradients cannot be combined by this optimizer")
    bucket.passes_left[index] = passes_left - 1
    if passes_left == 1:
        bucket.waiting_for -= 1
        if bucket.waiting_for == 0:
            optimizer._start_soon(bucket)
