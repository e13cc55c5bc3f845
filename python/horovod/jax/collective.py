"""What a collective of a program needs to know besides its arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from horovod.common.collectives import check_adasum
from horovod.common.process_sets import (
    ProcessSet,
    global_process_set,
    registered_set,
    set_rank,
    set_size,
    usable_id,
)
from horovod.common.util import Adasum, Average
from horovod.jax import forks

# The engine's numbers of operations.
KINDS = {"allreduce": 0, "allgather": 1, "broadcast": 2, "alltoall": 5, "reducescatter": 7}


@dataclass(frozen=True)
class Collective:
    """One collective, in values that can be compared: JAX finds compiled programs by them.

    `splits` is for an alltoall outside of programs, `rows` for an allgather in one whose ranks do
    not all pass the same number of rows: those of the result.
    """

    kind: str
    name: str | None = None
    op: int = Average
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    process_set_id: int = 0
    splits: tuple[int, ...] | None = None
    rows: int | None = None

    @property
    def process_set(self) -> ProcessSet:
        """The set of ranks that take part."""
        return registered_set(self.process_set_id)

    def scaled(self) -> dict[str, Any]:
        """How to reduce, as the functions of NumPy are told."""
        return {
            "op": self.op,
            "prescale_factor": self.prescale,
            "postscale_factor": self.postscale,
            "process_set": self.process_set,
        }

    def member(self, index: int, count: int) -> Collective:
        """The collective of one array of several that are not a group of the engine."""
        if self.name is None or count == 1:
            return self
        return replace(self, name=f"{self.name}.{index}")

    def result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a program's result: every rank passes the same number of rows there."""
        if self.kind in ("allreduce", "broadcast"):
            return shape
        if not shape:
            raise ValueError(f"{self.kind} needs an array with at least one dimension")
        rows, size = shape[0], set_size(self.process_set)
        if self.kind == "allgather":
            return (rows * size if self.rows is None else self.rows, *shape[1:])
        if self.kind == "alltoall":
            if self.splits is not None:
                raise ValueError(
                    "alltoall with splits: how many rows this rank gets is not known when a "
                    "program is compiled; call it outside of jit, or without splits"
                )
            if rows % size:
                raise ValueError(
                    f"alltoall: the first dimension, {rows}, is not divisible by the {size} ranks; "
                    "call it outside of jit, with splits"
                )
            return shape
        shortest, longer = divmod(rows, size)
        return (shortest + (set_rank(self.process_set) < longer), *shape[1:])


def collective(
    kind: str,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    **options: Any,
) -> Collective:
    """A collective with checked options."""
    forks.check()
    if options.get("op") == Adasum:
        check_adasum(process_set)
    text = None if name is None else f"{name}"
    return Collective(kind, text, process_set_id=usable_id(process_set), **options)
