"""Images for the examples: MNIST or Fashion-MNIST from a directory, else generated ones.

Nothing is downloaded. Debian and Ubuntu have `apt install dataset-fashion-mnist`; a directory with
the four IDX files works too.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

INSTALLED = Path("/usr/share/datasets/fashion-mnist")


def load(directory: Path, train: bool, generated: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 28 x 28 x 1 numbers and their classes; generated if the directory has none."""
    part = "train" if train else "t10k"
    images = find(directory, f"{part}-images-idx3-ubyte")
    labels = find(directory, f"{part}-labels-idx1-ubyte")
    if images and labels:
        pixels = read_idx(images).astype("float32") / 255
        return pixels[..., np.newaxis], read_idx(labels).astype("int64")
    return generate(generated, seed=1 if train else 2)


def find(directory: Path, name: str) -> Path | None:
    """A file, compressed or not."""
    candidates = [
        directory / place / file
        for place in ("", "raw", "MNIST/raw", "FashionMNIST/raw")
        for file in (name, f"{name}.gz")
    ]
    return next((path for path in candidates if path.exists()), None)


def read_idx(path: Path) -> np.ndarray:
    """Reads an IDX file: a byte with the number of dimensions at offset 3, sizes, then bytes."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    dimensions = content[3]
    sizes = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(sizes)


def generate(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy, shifted copies of ten fixed patterns."""
    patterns = np.random.default_rng(0).normal(size=(10, 7, 7)).repeat(4, axis=1).repeat(4, axis=2)
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    shifts = random.integers(-2, 3, (count, 2))
    images = np.stack(
        [np.roll(patterns[label], shift, (0, 1)) for label, shift in zip(labels, shifts)]
    )
    images += random.normal(size=images.shape)
    return images[..., np.newaxis].astype("float32"), labels
