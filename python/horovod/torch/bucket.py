"""Gradients that travel together, from their completion in the backward pass to `step`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from horovod.common.collectives import wait
from horovod.torch.gradient_reduction import Reduction


class Bucket:
    """Parameters whose gradients travel together, and how far they are in this step."""

    __slots__ = (
        "_gradient",
        "_handle",
        "_wait_for_gradient",
        "finish",
        "named",
        "nbytes",
        "passes_left",
        "waiting_for",
    )

    def __init__(self, named: Sequence[tuple[str, torch.nn.Parameter]], passes: int) -> None:
        self.named = named
        # Only a hint of when to start, so that it is not counted anew for every gradient.
        self.nbytes = sum(p.numel() * p.element_size() for _, p in named)
        self.passes_left: list[int] = []
        # What waits for the gradients, once they are on their way.
        self.finish: Callable[[], object] | None = None
        self._handle = 0
        self._gradient: torch.Tensor | None = None
        # Made once, because it would otherwise be made for each step.
        self._wait_for_gradient = self._wait
        self.expect(passes)

    def expect(self, passes: int) -> None:
        """Begins to count the backward passes of every parameter anew."""
        self.passes_left[:] = [passes] * len(self.named)
        self.waiting_for = len(self.named)

    def start(self, reduction: Reduction) -> None:
        """Sends the gradients on their way.

        The ordinary case, one gradient that travels as it is, creates no object that lives until
        the end of the step: a few for each of hundreds of parameters would make Python collect
        garbage, and that takes longer than everything else.
        """
        if len(self.named) == 1:
            name, parameter = self.named[0]
            gradient = parameter.grad
            handle = None if gradient is None else reduction.start_as_it_is(name, gradient)
            if handle is not None:
                self._handle = handle
                self._gradient = gradient
                self.finish = self._wait_for_gradient
                return
        self.finish = reduction.start(self.named)

    def _wait(self) -> None:
        wait(self._handle)
        self._gradient = None
