"""What is measured: single tensors of many sizes, many small ones, the gradients of two models."""

from __future__ import annotations

from typing import NamedTuple

KIB, MIB = 1 << 10, 1 << 20
SWEEP = [4, KIB, 16 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]


class Workload(NamedTuple):
    """One step: tensors of these bytes, one blocking call or all at once and then waited for."""

    name: str
    sizes: list[int]

    @property
    def blocking(self) -> bool:
        """Whether it is one operation that the caller waits for."""
        return len(self.sizes) == 1

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(self.sizes)


def label(size: int) -> str:
    """Bytes as people read them."""
    for unit, factor in (("MiB", MIB), ("KiB", KIB)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def resnet50() -> list[int]:
    """Elements of the parameters of ResNet-50, from input to output: 161 tensors, 25.6 million."""
    elements = [64 * 3 * 7 * 7, 64, 64]
    width_in = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            convolutions = [(width_in, width, 1), (width, width, 3), (width, 4 * width, 1)]
            if block == 0:
                convolutions.append((width_in, 4 * width, 1))
            for source, target, kernel in convolutions:
                elements += [source * target * kernel * kernel, target, target]
            width_in = 4 * width
    return [*elements, 2048 * 1000, 1000]


def bert_base() -> list[int]:
    """Elements of the parameters of BERT-base, from input to output: 199 tensors, 109.5 million."""
    width, inner = 768, 3072
    elements = [30522 * width, 512 * width, 2 * width, width, width]
    for _ in range(12):
        elements += [width * width, width] * 4 + [width, width]
        elements += [width * inner, inner, inner * width, width, width, width]
    return [*elements, width * width, width]


def gradients(elements: list[int]) -> list[int]:
    """Bytes of float32 gradients in the order in which a backward pass completes them."""
    return [4 * count for count in reversed(elements)]


def workloads(largest: int) -> list[Workload]:
    """Everything that is measured; single tensors up to `largest` bytes."""
    single = [Workload(label(size), [size]) for size in SWEEP if size <= largest]
    lists = [
        Workload("200 x 4 KiB", [4 * KIB] * 200),
        Workload("ResNet-50", gradients(resnet50())),
        Workload("BERT-base", gradients(bert_base())),
    ]
    return single + [work for work in lists if work.bytes <= 2 * largest]
