"""JAX's examples and the programs of its page run, and what they print shows that they learn."""

from __future__ import annotations

import importlib.util
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/jax"

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("jax", "optax", "flax")),
    reason="JAX, optax or flax is not installed",
)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text)]


# Adasum does not multiply the learning rate by the number of ranks.
@pytest.mark.parametrize(
    "options",
    ["", "--fp16-allreduce --backward-passes-per-step 2", "--use-adasum --lr 0.002"],
)
def test_mnist(horovodrun, options: str) -> None:
    script = str(EXAMPLES / "jax_mnist.py")
    done = horovodrun("-np", "2", sys.executable, script, *options.split(), timeout=110)
    assert done.returncode == 0, done.stderr
    accuracy = numbers(r"accuracy (\d+\.\d+)%", done.stdout)
    assert len(accuracy) == 5 and accuracy[-1] > 85


def test_cifar_without_cifar(horovodrun) -> None:
    command = ["-np", "2", sys.executable, str(EXAMPLES / "flax_cifar.py"), "--epochs", "2"]
    done = horovodrun(*command, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "training on digits instead of CIFAR-10" in done.stdout
    assert numbers(r"accuracy (\d+\.\d+)%", done.stdout)[-1] > 80


def test_cifar_with_files(horovodrun, tmp_path: Path) -> None:
    """Black images are class 0 and white ones class 1, which a few steps tell apart."""
    content = {
        b"data": np.repeat(np.array([[0], [255]] * 20, "uint8"), 3072, axis=1),
        b"labels": [0, 1] * 20,
    }
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        (tmp_path / name).write_bytes(pickle.dumps(content))
    script = str(EXAMPLES / "flax_cifar.py")
    options = ["--data", str(tmp_path), "--width", "2", "--batch-size", "5", "--lr", "0.02"]
    done = horovodrun("-np", "2", sys.executable, script, *options, timeout=110)
    assert done.returncode == 0, done.stderr
    assert numbers(r"accuracy (\d+\.\d+)%", done.stdout)[-1] == 100


def test_synthetic_benchmark(horovodrun) -> None:
    done = horovodrun(
        *["-np", "2", sys.executable, str(EXAMPLES / "jax_synthetic_benchmark.py")],
        *["--model", "small", "--batch-size", "2", "--image-size", "32"],
        *["--num-warmup-batches", "1", "--num-batches-per-iter", "1", "--num-iters", "2"],
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert len(numbers(r"Iter #\d: (\d+\.\d) img/sec per CPU", done.stdout)) == 2
    (each,) = numbers(r"Img/sec per CPU: (\d+\.\d)", done.stdout)
    (total,) = numbers(r"Total img/sec on 2 CPU\(s\): (\d+\.\d)", done.stdout)
    assert total == pytest.approx(2 * each, abs=0.2)


@pytest.mark.parametrize("end", ["", "hvd.shutdown()"])
def test_a_rank_that_needs_no_results_waits_for_its_programs(
    horovodrun, tmp_path: Path, end: str
) -> None:
    """JAX runs programs in the background; rank 1 is at its end before they have run."""
    (tmp_path / "train.py").write_text(
        "import time, jax, jax.numpy as jnp, horovod.jax as hvd\n"
        "hvd.init()\n"
        "step = jax.jit(lambda it: hvd.allreduce(it @ it))\n"
        "it = step(jnp.eye(200)).block_until_ready()\n"
        "time.sleep(1 - hvd.rank())\n"
        "for _ in range(20):\n"
        "    it = step(it)\n"
        "if hvd.rank() == 0:\n"
        f"    print('sum', it.sum())\n{end}\n"
    )
    done = horovodrun("-np", "2", sys.executable, str(tmp_path / "train.py"), timeout=60)
    assert done.returncode == 0, done.stderr
    assert "sum 200" in done.stdout


def programs() -> list[str]:
    """The Python blocks of the page that are programs of their own, not fragments."""
    text = (ROOT / "docs/frameworks/jax.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "import horovod" in block]


PRINTED = [
    r"\[0\]<stdout>:loss 0\.0",
    r"rank 1: 3.0 \(4, 2\) \[1.5 1.5\]",
    r"\[0\]<stdout>:loss \d+\.\d+ mean",
    r"\[0\]<stdout>:epoch 3",
]


@pytest.mark.parametrize("index", range(len(PRINTED)))
def test_programs_of_the_page_run(horovodrun, monkeypatch, tmp_path: Path, index: int) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(programs()[index])
    done = horovodrun("-np", "2", sys.executable, "train.py", timeout=110)
    assert done.returncode == 0, done.stderr
    assert re.search(PRINTED[index], done.stdout), done.stdout


def test_every_program_is_run() -> None:
    assert len(programs()) == len(PRINTED)
