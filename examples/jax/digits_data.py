"""Images for the examples: handwritten digits that come with Horovod, 16 times 16 pixels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import horovod.jax as hvd

DIGITS = Path(__file__).parent.parent / "data" / "digits.npz"
HELD_OUT = 1000

Data = tuple[np.ndarray, np.ndarray]


def load_digits() -> tuple[Data, Data]:
    """Images and labels to train with, and to test with: (count, 16, 16, 1) and (count,)."""
    with np.load(DIGITS) as data:
        images = (data["images"][..., None] / 7.0).astype("float32")
        labels = data["labels"].astype("int32")
    return (images[HELD_OUT:], labels[HELD_OUT:]), (images[:HELD_OUT], labels[:HELD_OUT])


def mine(data: Data) -> Data:
    """This rank's part; equal shares, so that every rank has the same number of steps."""
    share = len(data[0]) // hvd.size()
    part = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    return data[0][part], data[1][part]


def batches(data: Data, size: int, seed: int) -> Iterator[Data]:
    """An epoch in another order each time, without an incomplete batch at its end."""
    order = np.random.default_rng(seed).permutation(len(data[0]))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield data[0][chosen], data[1][chosen]
