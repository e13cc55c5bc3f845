"""Keras' examples run, and what they print shows that they learn."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("keras") is None, reason="Keras is not installed"
)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text)]


def test_keras_mnist_advanced(horovodrun, tmp_path: Path) -> None:
    """Every rank ends with the same model, so all print the same numbers."""
    checkpoints = tmp_path / "checkpoints"
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / "keras/keras_mnist_advanced.py")],
        *["--data", str(tmp_path), "--generated-images", "4000", "--epochs", "2"],
        *["--batch-size", "32", "--warmup-epochs", "1", "--checkpoint-dir", str(checkpoints)],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    endings = re.findall(r"<stdout>:(test loss \d+\.\d+  accuracy \d\.\d+)", done.stdout)
    assert len(endings) == 2
    assert endings[0] == endings[1]
    assert numbers(r"test loss .* accuracy (\d\.\d+)", done.stdout)[0] > 0.8
    assert "finished gradual learning rate warmup" in done.stdout
    assert {path.stem for path in checkpoints.iterdir()} == {"checkpoint-1", "checkpoint-2"}


def test_tensorflow2_keras_mnist(horovodrun, tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / "tensorflow2/tensorflow2_keras_mnist.py")],
        *["--data", str(tmp_path), "--generated-images", "4000", "--epochs", "2"],
        *["--batch-size", "32", "--steps", "160", "--fp16-allreduce"],
        *["--checkpoint-dir", str(tmp_path / "checkpoints")],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert numbers(r"accuracy (\d+\.\d+)%", done.stdout)[-1] > 60
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
