"""Models for the examples: those of torchvision if it is installed, else two of our own."""

from __future__ import annotations

import torch
from torch import nn


class Bottleneck(nn.Module):
    """Three convolutions and a way around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.layers = nn.Sequential(
            *convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, outputs, 1),
        )
        same = stride == 1 and inputs == outputs
        shortcut = () if same else convolution(inputs, outputs, 1, stride)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Adds what the convolutions find to the input."""
        return torch.relu(self.layers(x) + self.shortcut(x))


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution followed by batch normalisation."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return [layer, nn.BatchNorm2d(outputs)]


def resnet50(num_classes: int = 1000, width: int = 64) -> nn.Module:
    """ResNet-50, for machines without torchvision."""
    layers = [*convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(inputs, width << stage, stride))
            inputs = 4 * (width << stage)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, num_classes)]
    return nn.Sequential(*layers, *head)


def small(num_classes: int = 1000) -> nn.Module:
    """The same with very few channels, for a first try on a small machine."""
    return resnet50(num_classes, width=4)


def create(name: str, num_classes: int = 1000) -> nn.Module:
    """A model by its name."""
    if name == "small":
        return small(num_classes)
    try:
        from torchvision import models
    except ModuleNotFoundError:
        if name == "resnet50":
            return resnet50(num_classes)
        raise SystemExit(
            f"{name} needs torchvision; without it there are resnet50 and small"
        ) from None
    return getattr(models, name)(num_classes=num_classes)
