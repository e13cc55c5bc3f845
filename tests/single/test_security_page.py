"""Every statement of SECURITY.md names tests that exist: rows of its tables in their last column,
sentences in `security_promises.py`. The page and the tests are read as text; nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from security_promises import EXPLAINED, PROMISED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()
LABEL = re.compile(r"^\*\*[^*]+\.\*\* ")
"""What a point of a list is about."""


def blocks(page: str) -> Iterator[list[str]]:
    """The lines of each paragraph, point of a list, and table; no headings."""
    for block in re.split(r"\n\s*\n|\n(?=- )", page):
        lines = [line.strip() for line in block.splitlines() if not line.startswith("#")]
        if any(lines):
            yield lines


def sentences(page: str) -> list[str]:
    """All sentences in running text."""
    found = []
    for lines in blocks(page):
        if not lines[0].startswith("|"):
            text = LABEL.sub("", " ".join(lines).removeprefix("- "))
            found += re.split(r"(?<=\.)\s+|(?<=\.\))\s+", text)
    return found


def rows(page: str) -> list[list[str]]:
    """The cells of all tables, without the headings."""
    found = []
    for lines in blocks(page):
        if lines[0].startswith("|"):
            found += [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return found


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def is_test(name: str) -> bool:
    """Whether a test is there: `file.py::test_name`, or `crate/path.rs::name`."""
    path, _, function = name.partition("::")
    file = ROOT / ("crates" if path.startswith("hvd-") else "") / path
    if not file.is_file():
        return False
    text = file.read_text()
    if path.endswith(".py"):
        names = (node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
        return function.startswith("test_") and function in names
    # A test has its attribute above it; properties have it inside their macro.
    attribute = r"#\[(?:tokio::)?test(?:\([^)]*\))?\]\s+"
    return bool(re.search(rf"{attribute}(?:async )?fn {function}\(", text))


def test_every_row_names_tests_that_exist() -> None:
    tables = rows(PAGE)
    assert len(tables) >= 17
    for cells in tables:
        if cells[-1] == "none":
            assert cells[-2].startswith("anyone"), cells
        else:
            tests = named(cells[-1])
            assert tests, cells
            assert [test for test in tests if not is_test(test)] == [], cells


def test_every_sentence_names_tests_that_exist_or_promises_nothing() -> None:
    known = [*PROMISED, *EXPLAINED]
    assert sorted(known) == sorted(sentences(PAGE))
    for sentence, tests in PROMISED.items():
        assert tests, sentence
        assert [test for test in tests if not is_test(test)] == [], sentence
    assert all(EXPLAINED.values())


def test_the_page_is_read() -> None:
    page = "# A\n\nOne `b`. Two,\nand (three.) Four.\n\n| a | t |\n|---|---|\n| x | `c` |\n"
    page += "\n- **D.** E.\n- F\n  g.\n"
    assert sentences(page) == ["One `b`.", "Two, and (three.)", "Four.", "E.", "F g."]
    assert rows(page) == [["x", "`c`"]]
    assert is_test("tests/single/test_security_page.py::test_the_page_is_read")
    assert is_test("hvd-rendezvous/src/accept/tests.rs::a_forwarding_acceptor_reads_the_hello_only")
    assert not is_test("tests/single/test_security_page.py::rows")
    assert not is_test("hvd-rendezvous/src/accept/tests.rs::next")
    assert not is_test("hvd-rendezvous/src/gone.rs::next")
