"""The lists of what is shown by which test name tests that exist, and have no gaps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    "acceptance.md": {
        "Behaviour": 22,
        "Worked examples": 13,
        "Surprising rules": 15,
        "Placement": 3,
    },
    "acceptance_launcher.md": {"What people rely on": 8, "What upstream gets wrong": 19},
    "acceptance_torch.md": {"Operations and optimizer": 40, "Training": 9},
    "acceptance_keras.md": {"Training, saving, callbacks": 11, "Beyond upstream's list": 8},
    "acceptance_tensorflow.md": {"Operations and training": 33},
    "acceptance_mxnet.md": {"Operations and training": 12, "Beyond upstream's list": 9},
}
"""Sections and how many rows they have."""


def text_of(page: str) -> str:
    return (ROOT / "docs/development" / page).read_text()


NAMED = {
    named
    for page in PAGES
    for named in re.findall(r"`([\w/.-]+\.(?:py|rs))::(\w+)`", text_of(page))
}


@pytest.mark.parametrize(("file", "test"), sorted(NAMED))
def test_named_tests_exist(file: str, test: str) -> None:
    word = "def" if file.endswith(".py") else "fn"
    assert re.search(rf"\b{word} {test}\b", (ROOT / file).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_every_row_is_shown_by_a_test(page: str) -> None:
    numbers = {}
    for section in text_of(page).split("\n## ")[1:]:
        rows = [row.split(" | ") for row in section.splitlines() if re.match(r"\| \d", row)]
        assert all("::" in shown_by for _, _, shown_by in rows), section
        numbers[section.splitlines()[0]] = [int(number.strip("| ")) for number, _, _ in rows]
    assert numbers == {title: list(range(1, n + 1)) for title, n in PAGES[page].items()}
