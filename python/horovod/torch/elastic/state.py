"""The state of a training with PyTorch: models, optimizers and samplers by handlers, anything else
as plain attributes.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from horovod.common.basics import rank
from horovod.common.elastic import ObjectState
from horovod.common.objects import allgather_object as allgather_object
from horovod.common.objects import broadcast_object
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import broadcast_optimizer_state, broadcast_parameters


class StateHandler:
    """Saves and restores one object by its `state_dict`. Subclasses make it equal to rank 0's."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._saved: Any = None
        self.save()

    def save(self) -> None:
        """Copies the object's state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Goes back to what was saved last."""
        # A copy: optimizers use the tensors that they load, and would change what is saved.
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Makes the object equal to rank 0's."""
        raise NotImplementedError(f"{type(self).__name__} must define sync()")

    def set_value(self, value: Any) -> None:
        """Handles another object from now on."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Parameters and buffers of a model."""

    def sync(self) -> None:
        """Makes the model equal to rank 0's."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """Options and tensors of an optimizer."""

    def sync(self) -> None:
        """Makes the optimizer equal to rank 0's."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """How far a sampler is."""

    def sync(self) -> None:
        """Goes to where rank 0's sampler is, and shares out the rest among all ranks."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root_rank=0))
        self.save()


Registry = list[tuple[type, type[StateHandler]]]

_handler_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Types and their handlers, the first that fits wins."""
    return _handler_registry


def set_handler_registry(registry: Registry) -> None:
    """Replaces types and their handlers, for states that are made from now on."""
    global _handler_registry
    _handler_registry = registry


def _handler_type(value: Any) -> type[StateHandler] | None:
    for kind, handler in _handler_registry:
        if isinstance(value, kind):
            return handler
    return None


class TorchState(ObjectState):
    """Models, optimizers, samplers and other attributes that survive a change of the job's ranks.

    Any name can be given to any of them. An object that is assigned to such a name later takes the
    place of the one before.
    """

    _handlers: dict[str, StateHandler]

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        object.__setattr__(self, "_handlers", {})
        super().__init__(broadcast_object, rank, model=model, optimizer=optimizer, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._handlers or name in self.__dict__.get("_saved_state", {}):
            self._handle(name, value)

    def _handle(self, name: str, value: Any) -> None:
        """Finds out how an attribute with a new value is saved from now on."""
        kind, before = _handler_type(value), self._handlers.get(name)
        if kind is None:
            if before is not None:
                del self._handlers[name]
                self._saved_state[name] = value
        elif type(before) is not kind:
            self._handlers[name] = kind(value)
            self._saved_state.pop(name, None)
        elif before is not None and before.value is not value:
            before.set_value(value)

    def save(self) -> None:
        """Copies the state of everything."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Goes back to what was saved last."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Makes everything equal to rank 0's, and saves it."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        """Shares out samples anew, also if nothing is synchronized afterwards."""
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
