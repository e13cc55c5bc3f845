"""The recipe for Sockeye in docs/frameworks/mxnet.md, step by step, and what it must have done."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).parents[1]
PAGE = TREE / "docs/frameworks/mxnet.md"


def steps() -> list[str]:
    """The commands of the page: make text, prepare it, train."""
    (block,) = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    *prepare, train = block.replace("\\\n", " ").splitlines()
    assert train.startswith("horovodrun -np 2 python -m sockeye.train "), train
    return [*prepare, train]


def environment() -> dict[str, str]:
    """Commands are those of this virtual environment, as if it was activated; root may use MPI."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **root, "PATH": path}


def prepare(folder: Path) -> None:
    """Everything before the training."""
    (folder / "examples").symlink_to(TREE / "examples")
    for step in steps()[:-1]:
        done = run(step, folder)
        assert done.returncode == 0, done.stderr


def run(command: str, folder: Path, timeout: float = 110) -> subprocess.CompletedProcess[str]:
    """Runs a command line in a folder."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def check_model(model: Path) -> None:
    """Rank 0 wrote the model, both ranks have the same parameters, and the loss has fallen."""
    import mxnet as mx

    metrics = (model / "metrics").read_text()
    losses = [float(loss) for loss in re.findall(r"perplexity-val=([\d.]+)", metrics)]
    assert len(losses) == 3 and losses == sorted(losses, reverse=True), metrics
    assert losses[-1] < 0.9 * losses[0], metrics
    other = model / "secondary_workers/1"
    assert [path.name for path in other.parent.iterdir()] == ["1"]
    # The decisions of both ranks were the same, too.
    assert losses == [
        float(loss)
        for loss in re.findall(r"perplexity-val=([\d.]+)", (other / "metrics").read_text())
    ]
    assert "improved to" in (other / "log").read_text()
    mine, theirs = (mx.nd.load(str(place / "params.00003")) for place in (model, other))
    assert mine.keys() == theirs.keys() and len(mine) > 10
    for name, values in mine.items():
        assert (values.asnumpy() == theirs[name].asnumpy()).all(), name
    written = {path.name for path in model.iterdir()}
    assert {"params.best", "config", "vocab.src.0.json"} <= written
