"""How a tree of gradients becomes that of all ranks: in one collective, or in a few groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax.dtypes import float0

from horovod.common.collectives import check_adasum
from horovod.common.gradient_options import check_predivide_factor, is_group_count
from horovod.common.process_sets import ProcessSet, global_process_set, set_size
from horovod.common.util import Adasum, Average, Sum, split_list
from horovod.jax.compression import Compression, Compressor
from horovod.jax.mpi_ops import grouped_allreduce

Tree = Any


@dataclass(frozen=True)
class Reduction:
    """What users choose about the reduction of gradients, checked."""

    name: str | None = None
    compression: type[Compressor] = Compression.none
    op: int = Average
    gradient_predivide_factor: float = 1.0
    groups: int | None = None
    process_set: ProcessSet = global_process_set

    def __post_init__(self) -> None:
        if self.op not in (Average, Sum, Adasum):
            raise ValueError(
                f"gradients are combined with op=Average, Sum or Adasum, not {self.op!r}"
            )
        check_predivide_factor(self.gradient_predivide_factor, self.op)
        if self.groups is not None and not (is_group_count(self.groups) and self.groups > 0):
            raise ValueError(f"groups is a number of groups above 0, not {self.groups!r}")
        if self.op == Adasum:
            check_adasum(self.process_set)

    def __call__(self, tree: Tree) -> Tree:
        """The tree of all ranks. Ranks outside of the process set keep their own."""
        if not self.process_set.included() or set_size(self.process_set) == 1:
            return tree
        leaves, structure = jax.tree.flatten(tree)
        # Integers have gradients without elements.
        places = [at for at, leaf in enumerate(leaves) if getattr(leaf, "dtype", None) != float0]
        for number, part in enumerate(self._parts(places)):
            name = self.name if self.groups is None or not self.name else f"{self.name}.{number}"
            for at, result in zip(part, self._reduce([leaves[at] for at in part], name)):
                leaves[at] = result
        return jax.tree.unflatten(structure, leaves)

    def _parts(self, places: list[int]) -> list[list[int]]:
        if self.groups is None or not places:
            return [places]
        return [part for part in split_list(places, min(self.groups, len(places))) if part]

    def _reduce(self, leaves: list[Any], name: str | None) -> list[Any]:
        factor = self.gradient_predivide_factor
        return grouped_allreduce(
            leaves,
            name=name,
            compression=self.compression,
            op=self.op,
            prescale_factor=1.0 / factor,
            postscale_factor=factor,
            process_set=self.process_set,
        )
