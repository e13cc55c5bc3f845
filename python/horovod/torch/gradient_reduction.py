"""How the optimizer combines gradients: starts their operations, and stores what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from horovod.common.collectives import start_allreduce
from horovod.common.handles import synchronize
from horovod.common.process_sets import ProcessSet
from horovod.torch.compression import Compressor, NoneCompressor
from horovod.torch.ops.allreduce import allreduce_async_
from horovod.torch.ops.grouped_allreduce import grouped_allreduce_async_
from horovod.torch.ops.sparse_allreduce import sparse_allreduce_async
from horovod.torch.tensors import plain_view, start_in_place

Finish = Callable[[], object]
"""Waits for gradients and stores them in their parameters."""

Named = tuple[str, torch.nn.Parameter]


class Reduction(NamedTuple):
    """What is done to gradients on their way."""

    op: int
    compression: type[Compressor]
    prescale_factor: float
    postscale_factor: float
    sparse_as_dense: bool
    process_set: ProcessSet

    @classmethod
    def of_gradients(
        cls,
        op: int,
        compression: type[Compressor],
        predivide_factor: float,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> Reduction:
        """What the options of an optimizer ask for; the division of an average is in two parts."""
        factors = (1.0 / predivide_factor, predivide_factor)
        return cls(op, compression, *factors, sparse_as_dense, process_set)

    def start(self, group: Sequence[Named]) -> Finish:
        """Starts combining the gradients of a group; a missing gradient takes part as zeros.

        Sparse gradients travel as two tensors of their own each, outside of the group.
        """
        for _, parameter in group:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        sparse = [named for named in group if self._travels_sparse(named)]
        dense = [named for named in group if not self._travels_sparse(named)]
        finishes = [self._start_sparse(*named) for named in sparse]
        if dense:
            finishes.append(self._start_dense(dense))

        def finish() -> None:
            for finish_part in finishes:
                finish_part()

        return finish

    def start_as_it_is(self, name: str, gradient: torch.Tensor) -> int | None:
        """Starts combining a gradient in place; the caller keeps it, and waits for the handle.

        Returns None if the engine cannot work on the memory of the gradient itself.
        """
        op, compression, prescale, postscale, _, process_set = self
        if compression is not NoneCompressor:
            return None
        handle = start_in_place(gradient, name, op, prescale, postscale, process_set)
        if handle is None and _is_plain(gradient):
            target = plain_view(gradient)
            scaling = (prescale, postscale)
            return start_allreduce(target, target, name, op, scaling, process_set)
        return handle

    def start_alone(self, name: str, parameter: torch.nn.Parameter) -> tuple[Any, Any]:
        """Starts combining one gradient for a caller that waits for it and stores it itself."""
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if self._travels_sparse((name, parameter)):
            return sparse_allreduce_async(parameter.grad, name, self.op, self.process_set), None
        tensor, ctx = self.compression.compress(parameter.grad)
        return self._submit(name, [tensor]), ctx

    def _travels_sparse(self, named: Named) -> bool:
        return _gradient(named[1]).is_sparse and not self.sparse_as_dense

    def _start_sparse(self, name: str, parameter: torch.nn.Parameter) -> Finish:
        wait = sparse_allreduce_async(_gradient(parameter), name, self.op, self.process_set)

        def finish() -> None:
            parameter.grad = wait()

        return finish

    def _start_dense(self, group: Sequence[Named]) -> Finish:
        """Starts combining in place where gradients are neither compressed nor strided."""
        grads = [_gradient(parameter) for _, parameter in group]
        sent: list[tuple[torch.Tensor, Any]] = []
        for grad in grads:
            tensor = grad.to_dense() if grad.is_sparse else grad
            tensor = tensor.detach().resolve_conj().resolve_neg()
            compressed, ctx = self.compression.compress(tensor)
            sent.append((compressed.contiguous(), ctx))
        handle = self._submit(group[0][0], [tensor for tensor, _ in sent])

        def finish() -> None:
            synchronize(handle)
            for (tensor, ctx), grad, (_, parameter) in zip(sent, grads, group):
                _store(self.compression.decompress(tensor, ctx), grad, parameter)

        return finish

    def _submit(self, name: str, tensors: list[torch.Tensor]) -> int:
        """A group is named after its first parameter."""
        arguments = (self.op, self.prescale_factor, self.postscale_factor, self.process_set)
        if len(tensors) == 1:
            return allreduce_async_(tensors[0], None, name, *arguments)
        return grouped_allreduce_async_(tensors, None, name, *arguments)


def _is_plain(gradient: torch.Tensor) -> bool:
    return (
        gradient.layout is torch.strided
        and gradient.is_cpu
        and gradient.is_contiguous()
        and not (gradient.is_neg() or gradient.is_complex())
    )


def _store(reduced: torch.Tensor, grad: torch.Tensor, parameter: torch.nn.Parameter) -> None:
    if grad.is_sparse:
        parameter.grad = reduced.to_sparse()
    elif reduced.data_ptr() != grad.data_ptr():
        grad.copy_(reduced)


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        raise AssertionError("a gradient was removed before it could be combined")
    return parameter.grad
