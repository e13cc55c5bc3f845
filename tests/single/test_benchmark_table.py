"""README's speed table is the one that docs/benchmarks/allreduce.md gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "scripts/bench/readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_shows_the_last_benchmark(generator: ModuleType) -> None:
    readme, page = generator.README.read_text(), generator.PAGE.read_text()
    assert readme == generator.updated(readme, page), "run `python scripts/bench/readme.py`"


def test_another_number_on_the_page_is_noticed(generator: ModuleType) -> None:
    readme, page = generator.README.read_text(), generator.PAGE.read_text()
    row = next(line for line in page.splitlines() if line.startswith("| 2 | 4 B |"))
    faster = page.replace(row, row.replace("**", "**9", 1))
    assert readme != generator.updated(readme, faster)


def test_a_readme_without_its_block_is_an_error(generator: ModuleType) -> None:
    with pytest.raises(ValueError, match="no block"):
        generator.updated("# Horovod\n", generator.PAGE.read_text())
