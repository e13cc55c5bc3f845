"""MXNet's examples and the program of its page run, and what they print shows that they learn."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

mx = pytest.importorskip("mxnet")

TREE = Path(__file__).parents[2]
EXAMPLES = TREE / "examples/mxnet"


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text)]


def test_mnist(horovodrun, tmp_path: Path) -> None:
    saved = tmp_path / "mnist.params"
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / "mxnet_mnist.py")],
        *["--epochs", "3", "--fp16-allreduce", "--save", str(saved)],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    losses = numbers(r"loss (\d+\.\d+)", done.stdout)
    assert len(losses) == 3 and losses[-1] < losses[0]
    assert numbers(r"accuracy (\d+\.\d+)%", done.stdout)[-1] > 80
    assert saved.exists()


def test_imagenet(horovodrun, tmp_path: Path) -> None:
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / "mxnet_imagenet_resnet50.py")],
        *["--model", "resnet18_v1", "--image-size", "32", "--num-classes", "10"],
        *["--num-epochs", "2", "--steps-per-epoch", "4", "--batch-size", "8", "--lr", "0.005"],
        *["--warmup-epochs", "1", "--num-groups", "2", "--save-frequency", "2"],
        *["--save-dir", str(tmp_path)],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert len(numbers(r"epoch \d  loss (\d+\.\d+)  [\d.]+ images/s", done.stdout)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["resnet18_v1-0001.params"]


@pytest.mark.skipif(mx.__version__ >= "2", reason="Gluon takes other arrays since 2.0")
def test_the_program_of_the_page(horovodrun, tmp_path: Path) -> None:
    page = (TREE / "docs/frameworks/mxnet.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text(program)
    done = horovodrun("-np", "2", sys.executable, str(tmp_path / "train.py"), timeout=110)
    assert done.returncode == 0, done.stderr
    assert len(numbers(r"rank \d of 2: loss (\d+\.\d+)", done.stdout)) == 2
