"""TensorFlow's examples run, and what they print shows that they learn."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text)]


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("tensorflow/tensorflow_mnist.py", ""),
        ("tensorflow2/tensorflow2_mnist.py", "--fp16-allreduce"),
    ],
)
def test_mnist(horovodrun, tmp_path: Path, script: str, options: str) -> None:
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / script), "--data", str(tmp_path)],
        *["--generated-images", "4000", "--steps", "120", "--batch-size", "32"],
        *["--checkpoint-dir", str(tmp_path / "checkpoints"), *options.split()],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    losses = numbers(r"loss (\d+\.\d+)", done.stdout)
    assert losses[-1] < losses[0]
    (accuracy,) = numbers(r"accuracy (\d+\.\d+)%", done.stdout)
    assert accuracy > 80
    assert list((tmp_path / "checkpoints").iterdir())


def test_synthetic_benchmark(horovodrun) -> None:
    script = EXAMPLES / "tensorflow2/tensorflow2_synthetic_benchmark.py"
    done = horovodrun(
        *["-np", "2", sys.executable, str(script)],
        *["--model", "small", "--batch-size", "2", "--image-size", "32"],
        *["--num-warmup-batches", "1", "--num-batches-per-iter", "1", "--num-iters", "2"],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert len(numbers(r"Iter #\d: (\d+\.\d) img/sec per CPU", done.stdout)) == 2
    (each,) = numbers(r"Img/sec per CPU: (\d+\.\d)", done.stdout)
    (total,) = numbers(r"Total img/sec on 2 CPU\(s\): (\d+\.\d)", done.stdout)
    assert total == pytest.approx(2 * each, abs=0.2)
