"""Keras on PyTorch: how gradients and variables meet those of other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from horovod import torch as hvd
from horovod._keras.accumulation import count_step, reduce_accumulated
from horovod._keras.settings import Settings
from horovod.common.util import split_list
from horovod.torch import Compression

__all__ = ["Compression", "Steps", "allreduce_compressed", "broadcast_variables", "is_failure"]


class Steps:
    """The steps of one optimizer: what is reduced, when, and when it is applied."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.passes = 0
        self.sums: list[Any] = []
        self._local: set[int] = set()

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._local.add(id(variable))

    def apply(
        self,
        optimizer: Any,
        gradients: list[Any],
        variables: list[Any],
        apply: Callable[..., Any],
    ) -> None:
        """Reduces gradients and has the optimizer apply them."""
        if self.settings.backward_passes_per_step > 1:
            self._add(gradients)
            if self.passes < self.settings.backward_passes_per_step:
                count_step(optimizer)
                return
            gradients = self._take_sums()
        elif getattr(optimizer, "gradient_accumulation_steps", None):
            reduced = reduce_accumulated(optimizer, gradients, variables, self.reduce, _cond)
            apply(reduced, variables)
            return
        apply(self.reduce(gradients, variables), variables)

    def _add(self, gradients: list[Any]) -> None:
        before = self.sums or [None] * len(gradients)
        self.sums = [_plus(total, gradient) for total, gradient in zip(before, gradients)]
        self.passes += 1

    def _take_sums(self) -> list[Any]:
        sums, divisor = self.sums, self.passes
        self.sums, self.passes = [], 0
        if not self.settings.average_aggregated_gradients:
            return sums
        return [None if total is None else total / divisor for total in sums]

    @torch.compiler.disable  # with jit_compile=True, what comes before and after is compiled
    def reduce(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        """The gradients of all ranks, in the same order; those that are None stay so."""
        process_set = self.settings.process_set
        results = list(gradients)
        shared = []
        for place, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if id(variable) not in self._local:
                shared.append(place)
            elif self.settings.scale_local_gradients:
                results[place] = gradient / (process_set.size() or 1)
        if not process_set.included() or (process_set.size() or 1) == 1:
            return results
        started = [
            (group, self._start([gradients[place] for place in group], group))
            for group in self._groups(shared, variables)
        ]
        for group, (handle, contexts) in started:
            for place, context, reduced in zip(group, contexts, hvd.synchronize(handle)):
                results[place] = self.settings.compression.decompress(reduced, context)
        return results

    def _start(self, gradients: list[Any], group: list[int]) -> tuple[Any, list[Any]]:
        """Starts the reduction of a group; the handle, and what decompression needs to know."""
        factor = self.settings.gradient_predivide_factor
        compressed = [self.settings.compression.compress(each.detach()) for each in gradients]
        handle = hvd.grouped_allreduce_async(
            [tensor for tensor, _ in compressed],
            name=f"{self.name}.grad_{group[0]}_{group[-1]}",
            op=self.settings.op,
            prescale_factor=1.0 / factor,
            postscale_factor=factor,
            process_set=self.settings.process_set,
        )
        return handle, [context for _, context in compressed]

    def _groups(self, places: list[int], variables: list[Any]) -> list[list[int]]:
        """The places of gradients that are reduced together."""
        groups = self.settings.groups
        if groups is None:
            return [[place] for place in places]
        if isinstance(groups, int):
            return [group for group in split_list(places, groups) if group]
        left = {id(variables[place]): place for place in places}
        chosen = [[left.pop(id(each)) for each in group if id(each) in left] for group in groups]
        return [group for group in chosen if group] + [[place] for place in left.values()]


def _plus(total: Any, gradient: Any) -> Any:
    if gradient is None:
        return total
    return gradient.clone() if total is None else total + gradient


def _cond(condition: Any, due: Callable[[], Any], not_due: Callable[[], Any]) -> Any:
    return due() if condition else not_due()


def broadcast_variables(variables: list[Any], root_rank: int) -> None:
    """Overwrites variables with the root's."""
    hvd.broadcast_parameters(
        [(f"{place}", variable.value.data) for place, variable in enumerate(variables)], root_rank
    )


def allreduce_compressed(value: Any, compression: Any, **options: Any) -> Any:
    """Combines a value that travels in a shorter type."""
    return hvd.allreduce(torch.as_tensor(value), compression=compression, **options).numpy()


def is_failure(error: Exception) -> bool:
    """Whether this stands for HorovodInternalError, which PyTorch lets through as it is."""
    return False
