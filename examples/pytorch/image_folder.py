"""A data set of images in one folder per class, with or without Pillow.

Pillow, if installed, reads every usual format; without it only PPM files can be read.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
ENDINGS = {".jpeg", ".jpg", ".png", ".ppm"}


class ImageFolder(Dataset):
    """Images scaled to a square; classes are numbered by the names of their folders."""

    def __init__(self, folder: Path, size: int, augment: bool) -> None:
        self.size = size
        self.augment = augment
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        self.samples = [
            (path, number)
            for number, name in enumerate(self.classes)
            for path in sorted((folder / name).iterdir())
            if path.suffix.lower() in ENDINGS
        ]
        if not self.samples:
            raise SystemExit(f"there are no images in the folders of {folder}")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, number = self.samples[index]
        image = read_image(path).float().div(255)
        if self.augment and torch.rand(()) < 0.5:
            image = image.flip(2)
        size = (self.size, self.size)
        image = F.interpolate(image.unsqueeze(0), size=size, mode="bilinear", antialias=True)[0]
        return (image - MEAN) / DEVIATION, number


def read_image(path: Path) -> torch.Tensor:
    """The colours of an image as bytes: 3 x height x width."""
    if path.suffix.lower() == ".ppm":
        return read_ppm(path.read_bytes())
    from PIL import Image

    with Image.open(path) as image:
        pixels = image.convert("RGB")
        content = bytearray(pixels.tobytes())
        return as_planes(content, pixels.width, pixels.height)


def read_ppm(content: bytes) -> torch.Tensor:
    """Reads `P6 <width> <height> 255` and the colours of each pixel."""
    magic, width, height, _ = content.split(maxsplit=4)[:4]
    if magic != b"P6":
        raise ValueError("not a PPM file with binary colours")
    count = 3 * int(width) * int(height)
    return as_planes(bytearray(content[-count:]), int(width), int(height))


def as_planes(colours: bytearray, width: int, height: int) -> torch.Tensor:
    """From colours of each pixel to one plane for each colour."""
    return torch.frombuffer(colours, dtype=torch.uint8).reshape(height, width, 3).permute(2, 0, 1)
