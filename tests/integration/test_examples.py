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


# Adasum does not multiply the learning rate by the number of ranks.
@pytest.mark.parametrize("options", ["--fp16-allreduce", "--use-adasum --lr 0.02"])
def test_pytorch_mnist(horovodrun, tmp_path: Path, options: str) -> None:
    pytest.importorskip("torch")
    done = horovodrun(
        *["-np", "2", sys.executable, MNIST, "--data", str(tmp_path)],
        *["--generated-images", "6000", "--log-interval", "10", *options.split()],
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


def test_pytorch_synthetic_benchmark(horovodrun) -> None:
    pytest.importorskip("torch")
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / "pytorch/pytorch_synthetic_benchmark.py")],
        *["--model", "small", "--batch-size", "2", "--image-size", "32", "--no-cuda"],
        *["--num-warmup-batches", "1", "--num-batches-per-iter", "1", "--num-iters", "2"],
    )
    assert done.returncode == 0, done.stderr
    assert len(numbers(r"Iter #\d: (\d+\.\d) img/sec per CPU", done.stdout)) == 2
    (each,) = numbers(r"Img/sec per CPU: (\d+\.\d)", done.stdout)
    (total,) = numbers(r"Total img/sec on 2 CPU\(s\): (\d+\.\d)", done.stdout)
    assert total == pytest.approx(2 * each, abs=0.2)


def write_colours(folder: Path, count: int) -> None:
    """Red and blue images, of different sizes."""
    for name, colour in [("blue", bytes([20, 30, 250])), ("red", bytes([240, 10, 20]))]:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            header = f"P6 {8 + number} 9 255\n".encode()
            (folder / name / f"{number}.ppm").write_bytes(header + colour * (8 + number) * 9)


def test_pytorch_imagenet(horovodrun, tmp_path: Path) -> None:
    """An epoch, then a second one in another job, which goes on from the checkpoint."""
    pytest.importorskip("torch")
    write_colours(tmp_path / "train", 8)
    write_colours(tmp_path / "val", 3)
    command = [
        *["-np", "2", sys.executable, str(EXAMPLES / "pytorch/pytorch_imagenet_resnet50.py")],
        *["--train-dir", str(tmp_path / "train"), "--val-dir", str(tmp_path / "val"), "--no-cuda"],
        *["--checkpoint-format", str(tmp_path / "checkpoint-{epoch}.pth.tar")],
        *["--model", "small", "--image-size", "32", "--batch-size", "4", "--warmup-epochs", "1"],
        *["--batches-per-allreduce", "2"],
    ]
    first = horovodrun(*command, "--epochs", "1")
    assert first.returncode == 0, first.stderr
    assert numbers(r"epoch (\d) ", first.stdout) == [1]
    second = horovodrun(*command, "--epochs", "2")
    assert second.returncode == 0, second.stderr
    assert numbers(r"epoch (\d) ", second.stdout) == [2]
    assert (tmp_path / "checkpoint-2.pth.tar").exists()
    assert len(numbers(r"accuracy (\d+\.\d)%", first.stdout + second.stdout)) == 2
