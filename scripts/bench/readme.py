"""README's speed table: some columns of docs/benchmarks/allreduce.md, taken from that page itself.

`run.py` writes both together, and tests/single/test_benchmark_table.py compares the two, so README
cannot claim what the page does not show.

    python scripts/bench/readme.py      # writes README's block from the page as it stands
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGE = ROOT / "docs/benchmarks/allreduce.md"
BEGIN = "<!-- Written by `make bench` from docs/benchmarks/allreduce.md; do not edit. -->"
END = "<!-- end of the table -->"
PROCESSES = "2"
COLUMNS = ["4 B", "64 KiB", "1 MiB", "64 MiB", "256 MiB", "ResNet-50", "BERT-base"]


def rows(page):
    """The page's table: its header, then its rows, as lists of cells."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def block(page):
    """The table for README: one row for our times and one for each peer's median ratios."""
    header, _, *body = rows(page)
    measured = {row[1]: row[2:] for row in body if row[0] == PROCESSES}
    columns = [name for name in COLUMNS if name in measured]
    made = re.search(r"Made by that command on (\S+): (.*)\.", page)
    lines = [
        f"{PROCESSES} processes, float32 sum, {made[2]}, {made[1]}: Horovod's time, and its",
        "speed-up over each peer (above 1, Horovod is faster), median of the rounds.",
        "",
        f"| | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for index, peer in enumerate(header[2:]):
        cells = [median(measured[name][index]) for name in columns]
        lines.append(f"| {peer.replace('horovod', 'Horovod')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def median(cell):
    """A cell of the page without its range; times stay as they are."""
    ratio = re.match(r"\*\*(.+?)\*\*", cell)
    return f"{ratio[1]}x" if ratio else cell or "-"


def updated(readme, page):
    """README with its block replaced."""
    before, _, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"README.md has no block between `{BEGIN}` and `{END}`")
    return f"{before}{BEGIN}\n{block(page)}\n{END}{after}"


def write(page):
    """Writes README's block from the text of a page."""
    README.write_text(updated(README.read_text(), page))


if __name__ == "__main__":
    write(PAGE.read_text())
