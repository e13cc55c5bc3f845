"""The table of remedies, `tests/hosts/remedies.py`, leaves none of the launcher's out, and names
only tests that exist. The sources are read as text; nothing is run."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / "crates/hvd-launch/src"

# What is right about a host has no remedy.
WELL = {"Present", "Found", "Unhashed"}
# They put together what others say.
COMPOSE = {"report", "causes_by_host", "open_ports", "reasons"}


def table() -> ModuleType:
    path = ROOT / "tests/hosts/remedies.py"
    spec = importlib.util.spec_from_file_location("remedies_table", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = table()
PARTS = ("SSH_FAILURES", "FINDINGS", "DIAGNOSIS", "ERRORS", "OTHERS")


def variants(path: Path, name: str) -> set[str]:
    """The variants of an enum."""
    body = path.read_text().partition(f"enum {name} {{\n")[2].partition("\n}")[0]
    assert body, f"no enum {name} in {path}"
    return set(re.findall(r"^    ([A-Z]\w*)", body, re.MULTILINE))


def functions(path: Path) -> dict[str, tuple[str, str]]:
    """What each function of a file returns, and its body."""
    text = path.read_text()
    starts = [
        *re.finditer(r"^ *(?:pub(?:\([a-z]+\))? )?fn (\w+)([^{]*)\{", text, re.MULTILINE),
    ]
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {
        match[1]: (match[2].rpartition("->")[2].strip(), text[match.end() : end])
        for match, end in zip(starts, ends, strict=True)
    }


def found_by_findings() -> set[str]:
    """Functions that report something, with the variant where they tell several apart."""
    found = set()
    for name in ("files", "machine", "software"):
        for function, (_, body) in functions(LAUNCH / f"driver/findings/{name}.rs").items():
            if ".finding(" not in body:
                continue
            kinds = re.findall(r"\b(?:WorkingDirectory|Program|Content)::([A-Z]\w+)", body)
            # Only one is told apart where a function makes up a value of its own.
            if name == "files" and len(set(kinds)) > 1:
                found |= {f"{name}.{function}.{kind}" for kind in set(kinds) - WELL}
            else:
                found.add(f"{name}.{function}")
    return found


def found_by_diagnosis() -> set[str]:
    said = functions(LAUNCH / "hosts/addresses/diagnosis.rs")
    sentences = ("String", "Option<String>", "Vec<String>")
    return {name for name, (kind, _) in said.items() if kind in sentences} - COMPOSE


def test_every_remedy_has_a_row() -> None:
    ssh = variants(LAUNCH / "hosts/ssh/recognise.rs", "SshFailure")
    assert set(TABLE.SSH_FAILURES) == ssh
    assert set(TABLE.FINDINGS) == found_by_findings()
    assert set(TABLE.DIAGNOSIS) == found_by_diagnosis()
    assert set(TABLE.ERRORS) == variants(LAUNCH / "error.rs", "Error")


def test_the_sources_are_read() -> None:
    """A pattern that finds nothing would be content with an empty table."""
    assert {"KeyRefused", "Unknown"} <= variants(LAUNCH / "hosts/ssh/recognise.rs", "SshFailure")
    assert {"files.directory.Missing", "machine.clock"} <= found_by_findings()
    assert {"publish_ports", "pair"} <= found_by_diagnosis()
    assert {"NoHosts", "System"} <= variants(LAUNCH / "error.rs", "Error")


@pytest.mark.parametrize("part", PARTS)
def test_every_row_names_tests_that_exist_or_a_reason(part: str) -> None:
    for key, row in getattr(TABLE, part).items():
        if isinstance(row, TABLE.Untypable):
            assert row.why, key
            continue
        assert row.tests, key
        for name in row.tests:
            file, _, function = name.partition("::")
            tree = ast.parse((ROOT / "tests" / file).read_text())
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert function in names, f"{key}: {name} does not exist"


def test_tests_that_type_remedies_are_in_the_table() -> None:
    """Each test of the files for remedies stands in a row, so that none is there without a use."""
    rows = [row for part in PARTS for row in getattr(TABLE, part).values()]
    named = {name for row in rows if isinstance(row, TABLE.Typed) for name in row.tests}
    for path in sorted((ROOT / "tests/hosts").glob("test_remedies*.py")):
        for function in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE):
            if function not in NOTHING_TYPED:
                assert f"hosts/{path.name}::{function}" in named


NOTHING_TYPED = {
    # Another place has what is missing, and the job runs.
    "test_horovod_on_the_path_does_where_the_python_has_none",
}
