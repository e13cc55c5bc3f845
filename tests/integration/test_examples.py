"""The examples run, and what they print shows that they learn."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text)]


@pytest.mark.parametrize("num_proc", ["1", "2"])
def test_numpy_digits(horovodrun, num_proc: str) -> None:
    done = horovodrun("-np", num_proc, sys.executable, str(EXAMPLES / "numpy/digits.py"))
    assert done.returncode == 0, done.stderr
    losses = numbers(r"loss (\d+\.\d+)", done.stdout)
    assert losses[-1] < losses[0] / 4
    (held_out,) = numbers(r"never seen in training: (\d+\.\d+)%", done.stdout)
    assert held_out > 90


def test_pytorch_minimal(horovodrun) -> None:
    pytest.importorskip("torch")
    done = horovodrun("-np", "2", sys.executable, str(EXAMPLES / "pytorch/minimal.py"))
    assert done.returncode == 0, done.stderr
    assert numbers(r"loss (\d+\.\d+)", done.stdout)[-1] < 0.1


MNIST = str(EXAMPLES / "pytorch/pytorch_mnist.py")


@pytest.mark.parametrize("option", ["--fp16-allreduce", "--use-adasum"])
def test_pytorch_mnist(horovodrun, tmp_path: Path, option: str) -> None:
    pytest.importorskip("torch")
    done = horovodrun(
        *["-np", "2", sys.executable, MNIST, "--data", str(tmp_path)],
        *["--generated-images", "6000", "--log-interval", "10", option],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert numbers(r"accuracy (\d+\.\d+)%", done.stdout)[-1] > 80


def write_idx(path: Path, sizes: list[int], content: bytes) -> None:
    header = bytes([0, 0, 8, len(sizes)])
    data = header + b"".join(size.to_bytes(4, "big") for size in sizes) + content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_pytorch_mnist_with_files(horovodrun, tmp_path: Path) -> None:
    """Black images are class 0 and white ones class 1, which a few steps tell apart."""
    pytest.importorskip("torch")
    for part, count, ending in [("train", 640, ""), ("t10k", 30, ".gz")]:
        images = (bytes(784) + bytes([255] * 784)) * (count // 2)
        raw = tmp_path / "MNIST/raw"
        write_idx(raw / f"{part}-images-idx3-ubyte{ending}", [count, 28, 28], images)
        write_idx(raw / f"{part}-labels-idx1-ubyte{ending}", [count], bytes([0, 1] * (count // 2)))
    command = [sys.executable, MNIST, "--data", str(tmp_path), "--batch-size", "8", "--lr", "0.05"]
    done = horovodrun("-np", "2", *command)
    assert done.returncode == 0, done.stderr
    assert numbers(r"accuracy (\d+\.\d+)%", done.stdout)[-1] == 100
