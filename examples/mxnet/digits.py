"""The images in `examples/data/digits.npz`, as far as they are one rank's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

DATA = Path(__file__).parent.parent / "data" / "digits.npz"
TEST_IMAGES = 1000


class Part:
    """Images of one rank, and what they show."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, seed: int) -> None:
        self.images, self.labels = images, labels
        self.random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
        """All images once, in another order each time; what does not fill a batch is left out."""
        order = self.random.permutation(len(self))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield as_array(self.images[chosen]), as_array(self.labels[chosen])


def as_array(values: np.ndarray) -> Any:
    """An array of the kind that Gluon takes: that of NumPy's style since MXNet 2.0."""
    module = mx.np if mx.__version__ >= "2" else mx.nd
    return module.array(values, dtype="float32")


def load(rank: int, ranks: int, size: int = 16, colours: int = 1) -> tuple[Part, Part]:
    """A rank's part of the training and of the test images, enlarged to a size."""
    with np.load(DATA) as data:
        images, labels = data["images"].astype("float32") / 7 - 0.27, data["labels"]
    times = max(1, size // images.shape[1])
    images = images[:, None].repeat(colours, axis=1).repeat(times, axis=2).repeat(times, axis=3)
    train, test = slice(TEST_IMAGES + rank, None, ranks), slice(rank, TEST_IMAGES, ranks)
    return Part(images[train], labels[train], rank), Part(images[test], labels[test], rank)
