"""Every relative link in the Markdown of the tree leads to a file, and every anchor to a heading.

`make docs` checks the same in its strict build; this needs nothing but Python.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXTERNAL = ("http://", "https://", "mailto:")


def pages() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


def prose(text: str) -> str:
    """The text without code blocks and code spans."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors of all headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


def broken(page: Path, text: str) -> Iterator[str]:
    for link in LINK.findall(prose(text)):
        if link.startswith(EXTERNAL):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path
        if path and not target.exists():
            yield f"{link}: no such file"
        elif anchor and anchor not in anchors(target.read_text() if path else text):
            yield f"{link}: no such heading"


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    assert list(broken(path, path.read_text())) == []


def test_broken_links_are_found() -> None:
    text = "# One, two\n[a](#one-two) [b](#three) [c](LICENSE) [d](nowhere.md#x) `[e](code.md)`\n"
    assert list(broken(ROOT / "page.md", text)) == [
        "#three: no such heading",
        "nowhere.md#x: no such file",
    ]
