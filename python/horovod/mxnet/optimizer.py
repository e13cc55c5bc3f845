"""An optimizer of MXNet that reduces gradients over all ranks before it uses them."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.mxnet.gradients import GradientReduction

_OWN = ("_optimizer", "_reduction")


class DistributedOptimizer(mx.optimizer.Optimizer):
    """Wraps an optimizer; everything but `update` is the wrapped one's."""

    def __init__(
        self,
        optimizer: Any,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        # The base class's attributes are those of the wrapped optimizer.
        self._optimizer = optimizer
        self._reduction = GradientReduction(gradient_predivide_factor, num_groups, process_set)
        optimizer.rescale_grad *= self._reduction.rescale

    def unwrapped(self) -> Any:
        """The wrapped optimizer, with the scaling that it had."""
        self._optimizer.rescale_grad /= self._reduction.rescale
        return self._optimizer

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._optimizer, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _reduce(self, index: Any, grad: Any) -> None:
        if isinstance(index, (tuple, list)):
            self._reduction.reduce([str(one) for one in index], grad)
        else:
            self._reduction.reduce([str(index)], [grad])

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Reduces gradients and updates weights with them."""
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As `update`, for weights that have a copy of higher precision."""
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def create_state(self, index: Any, weight: Any) -> Any:
        """The wrapped optimizer's state of a weight."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """The wrapped optimizer's state of a weight that has a copy of higher precision."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def set_learning_rate(self, lr: float) -> None:
        """Sets the wrapped optimizer's learning rate."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """Sets the wrapped optimizer's factors of learning rates."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """Sets the wrapped optimizer's factors of weight decays."""
        self._optimizer.set_wd_mult(args_wd_mult)
