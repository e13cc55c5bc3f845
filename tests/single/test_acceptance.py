"""The list of what is shown by which test names tests that exist, and has no gaps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/acceptance.md"
PAGES = sorted((ROOT / "docs/reference").glob("acceptance*.md"))
NAMED = [
    named
    for page in PAGES
    for named in re.findall(r"`([\w/.-]+\.(?:py|rs))::(\w+)`", page.read_text())
]


@pytest.mark.parametrize(("file", "test"), sorted(set(NAMED)))
def test_named_tests_exist(file: str, test: str) -> None:
    word = "def" if file.endswith(".py") else "fn"
    assert re.search(rf"\b{word} {test}\b", (ROOT / file).read_text())


def test_every_row_is_shown_by_a_test() -> None:
    sections = PAGE.read_text().split("\n## ")[1:]
    numbers = {}
    for section in sections:
        rows = [row.split(" | ") for row in section.splitlines() if re.match(r"\| \d", row)]
        assert all("::" in shown_by for _, _, shown_by in rows), section
        numbers[section.splitlines()[0]] = [int(number.strip("| ")) for number, _, _ in rows]
    lengths = {"Behaviour": 22, "Worked examples": 13, "Surprising rules": 15, "Placement": 3}
    assert numbers == {title: list(range(1, n + 1)) for title, n in lengths.items()}
