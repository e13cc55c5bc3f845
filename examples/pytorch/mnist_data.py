"""Images for `pytorch_mnist.py`: MNIST or Fashion-MNIST from a directory, else generated ones.

Nothing is downloaded. Debian and Ubuntu have `apt install dataset-fashion-mnist`; a directory where
torchvision has put its files, or with the four IDX files themselves, works too.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import torch
from torch.utils.data import TensorDataset

INSTALLED = Path("/usr/share/datasets/fashion-mnist")
PLACES = ("", "raw", "MNIST/raw", "FashionMNIST/raw")


def load(directory: Path, train: bool, generated: int) -> TensorDataset:
    """The images in a directory, or a number of generated ones if it has none."""
    part = "train" if train else "t10k"
    images = find(directory, f"{part}-images-idx3-ubyte")
    labels = find(directory, f"{part}-labels-idx1-ubyte")
    if images and labels:
        pixels = read_idx(images).float().div(255).sub(0.2860).div(0.3530)
        return TensorDataset(pixels.unsqueeze(1), read_idx(labels).long())
    return generate(generated, seed=1 if train else 2)


def find(directory: Path, name: str) -> Path | None:
    """A file, compressed or not, in a directory or where torchvision puts it."""
    candidates = [directory / place / file for place in PLACES for file in (name, f"{name}.gz")]
    return next((path for path in candidates if path.exists()), None)


def read_idx(path: Path) -> torch.Tensor:
    """Reads an IDX file: a byte with the number of dimensions at offset 3, sizes, then bytes."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    dimensions = content[3]
    sizes = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    pixels = torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=4 + 4 * dimensions)
    return pixels.reshape(sizes)


def generate(count: int, seed: int) -> TensorDataset:
    """Noisy, shifted copies of ten fixed patterns."""
    patterns = torch.randn(10, 1, 7, 7, generator=torch.Generator().manual_seed(0))
    patterns = torch.nn.functional.interpolate(patterns, size=(28, 28), mode="bilinear")
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=random)
    shifts = torch.randint(-2, 3, (count, 2), generator=random).tolist()
    images = torch.stack(
        [torch.roll(patterns[label], shift, (1, 2)) for label, shift in zip(labels, shifts)]
    )
    return TensorDataset(images + torch.randn(images.shape, generator=random), labels)
