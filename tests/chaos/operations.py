"""A random stream of collectives, the same on every rank, each with its expected result.

All ranks draw from the same seed, so each knows the inputs of all others. Inputs are small whole
numbers: every sum and product is exact in every type, and a wrong one is wrong beyond doubt.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import horovod.numpy as hvd

Array = npt.NDArray[Any]

DTYPES = ["uint8", "int8", "int32", "int64", "float16", "float32", "float64"]
SIZES = [0, 1, 2, 7, 100, 1000, 20_000, 200_000, 1_500_000]
WEIGHTS = [1, 3, 3, 5, 6, 6, 4, 2, 1]

# One row of small numbers, from which every input is a slice.
POOL = np.random.default_rng(1).integers(0, 3, 4_000_000).astype(np.uint8)


class WrongNumber(Exception):
    """A collective returned something other than what the ranks put in."""


class Operation(NamedTuple):
    """Something to start now, and the check of what it returns."""

    label: str
    start: Callable[[], int]
    check: Callable[[Any], None]


class Stream:
    """The operations of one job, one after the other."""

    def __init__(self, seed: int, rank: int, size: int) -> None:
        self._random = random.Random(seed)
        self._rank = rank
        self._size = size
        self._count = 0

    def batch(self) -> list[Operation]:
        """Operations that may be in flight together; a single one most of the time."""
        length = self._random.choice([1, 1, 1, 2, 5, 12])
        return [self._next() for _ in range(length)]

    def pause(self) -> float:
        """How long this rank computes before the next batch; differs between ranks."""
        pauses = [self._random.choice([0, 0, 0, 0.001, 0.02]) for _ in range(self._size)]
        return pauses[self._rank]

    def _next(self) -> Operation:
        self._count += 1
        kinds = [self._allreduce, self._allgather, self._broadcast, self._alltoall]
        make = self._random.choice([*kinds, self._reducescatter, self._allreduce])
        # Few names for many operations: most are new to the response cache, some are not.
        return make(f"{make.__name__}.{self._count % 40}")

    def _inputs(self, shapes: Sequence[tuple[int, ...]], dtype: str, least: int = 0) -> list[Array]:
        arrays = []
        for shape in shapes:
            length = int(np.prod(shape))
            offset = self._random.randrange(len(POOL) - length)
            array = POOL[offset : offset + length].astype(dtype)
            arrays.append((np.minimum(array, 1) + 1 if least else array).reshape(shape))
        return arrays

    def _draw_length(self) -> int:
        return self._random.choices(SIZES, WEIGHTS)[0]

    def _allreduce(self, name: str) -> Operation:
        dtype = self._random.choice(DTYPES)
        ops = [hvd.Sum, hvd.Min, hvd.Max, hvd.Product]
        op = self._random.choice([*ops, hvd.Average] if dtype.startswith("float") else ops)
        shapes = [(self._draw_length(),)] * self._size
        inputs = self._inputs(shapes, dtype, least=int(op == hvd.Product))
        own = inputs[self._rank]
        in_place = self._random.random() < 0.5
        start = hvd.allreduce_async_ if in_place else hvd.allreduce_async
        # The expectation is made before an operation in place overwrites its input.
        return Operation(
            f"{name} {dtype}{own.shape} op {op}",
            lambda: start(own, name=f"{name}.{dtype}.{own.size}.{op}", op=op),
            comparison(name, reduced(inputs, op)),
        )

    def _reducescatter(self, name: str) -> Operation:
        dtype = self._random.choice(DTYPES)
        shape = (self._draw_length() // 5 + self._size, self._random.choice([1, 5]))
        inputs = self._inputs([shape] * self._size, dtype)
        rows, more = divmod(shape[0], self._size)
        first = self._rank * rows + min(self._rank, more)
        last = first + rows + (self._rank < more)
        own = inputs[self._rank]
        return Operation(
            f"{name} {dtype}{shape}",
            lambda: hvd.reducescatter_async(own, name=name, op=hvd.Sum),
            comparison(name, reduced(inputs, hvd.Sum)[first:last]),
        )

    def _allgather(self, name: str) -> Operation:
        dtype = self._random.choice([*DTYPES, "bool"])
        longest = self._draw_length() // self._size + 1
        shapes = [(self._random.randint(0, longest), 3) for _ in range(self._size)]
        inputs = self._inputs(shapes, dtype)
        own = inputs[self._rank]
        return Operation(
            f"{name} {dtype}{shapes}",
            lambda: hvd.allgather_async(own, name=name),
            comparison(name, np.concatenate(inputs)),
        )

    def _broadcast(self, name: str) -> Operation:
        dtype = self._random.choice([*DTYPES, "bool"])
        root = self._random.randrange(self._size)
        inputs = self._inputs([(self._draw_length(),)] * self._size, dtype)
        own = inputs[self._rank]
        return Operation(
            f"{name} {dtype}{own.shape} root {root}",
            lambda: hvd.broadcast_async(own, root, name=name),
            comparison(name, inputs[root]),
        )

    def _alltoall(self, name: str) -> Operation:
        dtype = self._random.choice(DTYPES)
        longest = self._draw_length() // self._size**2 + 1
        splits = [
            [self._random.randint(0, longest) for _ in range(self._size)] for _ in range(self._size)
        ]
        inputs = self._inputs([(sum(rows), 2) for rows in splits], dtype)
        own, own_splits = inputs[self._rank], splits[self._rank]
        parts = []
        for array, rows in zip(inputs, splits):
            begin = sum(rows[: self._rank])
            parts.append(array[begin : begin + rows[self._rank]])
        check_rows = comparison(name, np.concatenate(parts))
        check_splits = comparison(name, np.array([rows[self._rank] for rows in splits], np.int32))

        def check(result: tuple[Array, Array]) -> None:
            check_rows(result[0])
            check_splits(result[1])

        start = lambda: hvd.alltoall_async(own, own_splits, name=name)  # noqa: E731
        return Operation(f"{name} {dtype} splits {splits}", start, check)


def reduced(inputs: list[Array], op: int) -> Array:
    stack = np.stack(inputs)
    if op == hvd.Min:
        return stack.min(axis=0)
    if op == hvd.Max:
        return stack.max(axis=0)
    if op == hvd.Product:
        return stack.prod(axis=0, dtype=stack.dtype)
    total = stack.sum(axis=0, dtype=stack.dtype)
    return total / stack.dtype.type(len(inputs)) if op == hvd.Average else total


def comparison(name: str, expected: Array) -> Callable[[Array], None]:
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}.get(expected.dtype.name, 0)

    def check(result: Array) -> None:
        facts = f"{name}: {result.dtype}{result.shape}, expected {expected.dtype}{expected.shape}"
        if result.shape != expected.shape or result.dtype != expected.dtype:
            raise WrongNumber(facts)
        close = np.array_equal(result, expected)
        if not close and tolerance:
            close = np.allclose(result, expected, rtol=tolerance, atol=0)
        if not close:
            where = np.flatnonzero(result != expected)
            first = where[0]
            got, wanted = result.flat[first], expected.flat[first]
            text = f"{len(where)} differ, first at {first}: {got} instead of {wanted}"
            raise WrongNumber(f"{facts}: {text}")

    return check
