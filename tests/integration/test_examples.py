"""The examples run, and what they print shows that they learn."""

from __future__ import annotations

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


def test_pytorch_mnist(horovodrun, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / "pytorch/pytorch_mnist.py")],
        *["--data-dir", str(tmp_path), "--generated-images", "6000"],
        *["--log-interval", "10", "--fp16-allreduce"],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert numbers(r"accuracy (\d+\.\d+)%", done.stdout)[-1] > 80
