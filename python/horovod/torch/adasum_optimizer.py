"""The optimizer that combines by Adasum what the steps of all ranks would change.

As soon as a parameter's gradient is complete, the wrapped optimizer does its step for that
parameter alone. What the step changed travels to the other ranks, while the parameter is put back
to where it was; `step` adds the combined change. Every rank thus keeps its own optimizer state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from horovod.common.handles import synchronize
from horovod.common.util import Adasum
from horovod.torch.bucket import Bucket
from horovod.torch.gradient_reduction import Finish
from horovod.torch.hooked_optimizer import HookedOptimizer
from horovod.torch.ops.allreduce import allreduce_async_
from horovod.torch.parameter_groups import Groups


class AdasumOptimizer(HookedOptimizer):
    """The part put in front of the wrapped optimizer's class."""

    param_groups: list[dict[str, Any]]

    def distribute(
        self, names: dict[torch.nn.Parameter, str], passes: int, reduction: Any, groups: Groups
    ) -> None:
        """Stands in for `__init__`; changes travel one by one, whatever the groups are."""
        super().distribute(names, passes, reduction, None)

    def _start(self, bucket: Bucket) -> None:
        ((name, parameter),) = bucket.named
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        bucket.finish = self._send(name, parameter, self._change(parameter))

    @torch.no_grad()
    def _change(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """What the wrapped optimizer's step does to a parameter, which it is spared."""
        before = parameter.detach().clone()
        self._step_alone(parameter)
        change = parameter.detach() - before
        parameter.copy_(before)
        return change

    def _step_alone(self, parameter: torch.nn.Parameter) -> None:
        """Lets the wrapped optimizer believe that there is only this parameter."""
        everything = self.param_groups
        (group,) = [g for g in everything if any(p is parameter for p in g["params"])]
        members = group["params"]
        group["params"] = [parameter]
        self.param_groups = [group]
        try:
            # Past the distributed `step`, to the wrapped optimizer's.
            super(HookedOptimizer, self).step()
        finally:
            group["params"] = members
            self.param_groups = everything

    def _send(self, name: str, parameter: torch.nn.Parameter, change: torch.Tensor) -> Finish:
        compression = self._reduction.compression
        compressed, ctx = compression.compress(change)
        compressed = compressed.contiguous()
        handle = allreduce_async_(compressed, name=name, op=Adasum)

        @torch.no_grad()
        def finish() -> None:
            synchronize(handle)
            parameter.add_(compression.decompress(compressed, ctx))

        return finish

    def synchronize(self) -> None:
        """Does nothing: changes, not gradients, are combined, and by `step`."""

    def skip_synchronize(self) -> Any:
        """Not possible here."""
        raise AssertionError("skip_synchronize() cannot be used with op=Adasum")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Adds the combined changes of all ranks to the parameters."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._finish_all()
        return loss
