"""Images for `pytorch_mnist.py`: Fashion-MNIST if it is on this machine, else generated ones.

Debian and Ubuntu have the data as a package: `apt install dataset-fashion-mnist`.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import torch
from torch.utils.data import TensorDataset

INSTALLED = Path("/usr/share/datasets/fashion-mnist")
FILES = {True: "train", False: "t10k"}


def load(directory: Path, train: bool, generated: int) -> TensorDataset:
    """The images in a directory, or a number of generated ones if it has none."""
    images = directory / f"{FILES[train]}-images-idx3-ubyte.gz"
    labels = directory / f"{FILES[train]}-labels-idx1-ubyte.gz"
    if images.exists() and labels.exists():
        pixels = read_idx(images).float().div(255).sub(0.2860).div(0.3530)
        return TensorDataset(pixels.unsqueeze(1), read_idx(labels).long())
    return generate(generated, seed=1 if train else 2)


def read_idx(path: Path) -> torch.Tensor:
    """Reads an IDX file: a byte with the number of dimensions at offset 3, sizes, then bytes."""
    content = gzip.decompress(path.read_bytes())
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
