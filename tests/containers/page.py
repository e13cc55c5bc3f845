"""docs/guide/docker.md as something that can be run: its sections, each with its blocks in order.

The words after `sh` say where a block is typed: `machine=NAME`, or `container=NAME` for the shell
inside a container. A `text` block after it is what must come out, line by line in any order, where
`...` at the end of a line stands for anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    """Commands, where they are typed and what they print."""

    commands: str
    words: dict[str, str]
    expected: list[str] = field(default_factory=list)

    def missing(self, output: str) -> list[str]:
        """The expected lines that the output does not have."""
        lines = output.splitlines()
        return [wanted for wanted in self.expected if not any(matches(wanted, x) for x in lines)]


def matches(wanted: str, line: str) -> bool:
    if wanted.endswith("..."):
        return line.startswith(wanted[:-3])
    return line.rstrip() == wanted


def sections(page: str) -> dict[str, list[Block]]:
    """The blocks of each section by its title."""
    found = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        found[title] = blocks(text)
    return found


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    for kind, words, body in FENCE.findall(text):
        if kind == "text":
            found[-1].expected = body.splitlines()
        elif kind == "sh":
            found.append(Block(body, dict(word.split("=") for word in words.split())))
        else:
            raise AssertionError(f"a block of kind {kind} is neither `sh` nor `text`")
    return found
