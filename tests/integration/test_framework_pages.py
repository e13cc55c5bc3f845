"""The complete programs in docs/frameworks/ run as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs/frameworks"


def programs(page: str) -> list[str]:
    """The Python blocks that are programs of their own, not fragments."""
    text = (PAGES / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "import horovod" in block]


@pytest.mark.parametrize(
    ("page", "index", "printed"),
    [
        ("numpy.md", 0, r"rank 1: \[0.5 1. \] 3 rows"),
        ("pytorch.md", 0, r"\[0\]<stdout>:epoch 2  loss 0\."),
        ("pytorch.md", 1, r"rank 1: 6.0 3 rows 1.0 {'seed': 7}"),
        ("pytorch.md", 2, r"\[0\]<stdout>:tensor\(\[1., 1.\]\)"),
    ],
)
def test_programs_run(
    horovodrun, monkeypatch, tmp_path: Path, page: str, index: int, printed: str
) -> None:
    if page == "pytorch.md":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(programs(page)[index])
    done = horovodrun("-np", "2", sys.executable, "train.py", timeout=110)
    assert done.returncode == 0, done.stderr
    assert re.search(printed, done.stdout), done.stdout


@pytest.mark.parametrize(("page", "number"), [("numpy.md", 1), ("pytorch.md", 3)])
def test_every_program_is_run(page: str, number: int) -> None:
    assert len(programs(page)) == number
