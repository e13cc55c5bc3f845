"""The ratios as an SVG: a panel for each number of processes, a line for each peer, log scales.

Peers differ in the shape of their marks as well as in colour. The picture follows the reader's
light or dark setting.
"""

from __future__ import annotations

import math
from html import escape

from page import present, ratio
from peers import NAMES
from workloads import label

COLOURS = {
    "gloo": ("#0b62c4", "#6cb0ff"),
    "ddp": ("#7a35c2", "#c79bff"),
    "openmpi": ("#b34700", "#ff9d4d"),
    "mpich": ("#0a7d4f", "#4fd39a"),
}
MARKS = {"gloo": "circle", "ddp": "diamond", "openmpi": "square", "mpich": "triangle"}
WIDTH, PANEL, TOP, LEFT, LISTS = 960, 330, 86, 76, 240
SINGLE = WIDTH - LEFT - LISTS - 60
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; } .small { font-size: 12px; fill: #57606a; }
  .page { fill: #ffffff; } .grid { stroke: #d8dee4; }
  .even { stroke: #1f2328; stroke-dasharray: 6 4; }
  .frame { fill: none; stroke: #8c959f; }
"""
DARK = """
    text { fill: #e6edf3; } .small { fill: #9da7b3; } .page { fill: #0d1117; }
    .grid { stroke: #2d343d; } .even { stroke: #e6edf3; } .frame { stroke: #6e7681; }
"""


class Panel:
    """Where things are in the panel of one number of processes."""

    def __init__(self, index, sizes, lists, low, high):
        self.top = TOP + index * PANEL
        self.bottom = self.top + PANEL - 90
        self.sizes, self.lists, self.low, self.high = sizes, lists, low, high

    def y(self, value):
        """Height of a ratio."""
        part = math.log10(value / self.low) / math.log10(self.high / self.low)
        return self.bottom - part * (self.bottom - self.top)

    def x(self, name):
        """Place of a workload: single tensors by size, lists after them."""
        if name in self.sizes:
            span = math.log2(max(self.sizes.values()) / min(self.sizes.values())) or 1
            part = math.log2(self.sizes[name] / min(self.sizes.values())) / span
            return LEFT + 20 + part * (SINGLE - 40)
        return LEFT + SINGLE + 40 + (self.lists.index(name) + 0.5) * LISTS / len(self.lists)


def mark(shape, x, y):
    """A point of a peer."""
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    corners = {
        "square": [(-4, -4), (4, -4), (4, 4), (-4, 4)],
        "diamond": [(0, -5), (5, 0), (0, 5), (-5, 0)],
        "triangle": [(0, -5), (5, 4), (-5, 4)],
    }[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}"/>'


def text(x, y, words, kind="", anchor="middle"):
    """Words at a place."""
    place = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def axes(panel, np):
    """Frame, grid, ticks and names of the axes."""
    yield text(LEFT, panel.top - 10, f"{np} processes", "title", "start")
    right = LEFT + SINGLE + 40 + LISTS
    for start, end in ((LEFT, LEFT + SINGLE), (LEFT + SINGLE + 40, right)):
        yield (
            f'<rect x="{start}" y="{panel.top}" width="{end - start}" '
            f'height="{panel.bottom - panel.top}" class="frame"/>'
        )
        for tick in ticks(panel.low, panel.high):
            y, kind = panel.y(tick), "even" if tick == 1 else "grid"
            yield f'<line x1="{start}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>'
            if start == LEFT:
                yield text(LEFT - 8, y + 4, f"{tick:g}x", "small", "end")
    for name in labelled(panel):
        yield text(panel.x(name), panel.bottom + 18, name, "small")
    yield text(LEFT + SINGLE / 2, panel.bottom + 38, "one tensor, blocking call: bytes (log scale)")
    yield text(right - LISTS / 2, panel.bottom + 38, "lists of tensors, submitted at once")
    middle = (panel.top + panel.bottom) / 2
    yield (
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        "speed-up (log scale)</text>"
    )


def labelled(panel):
    """The workloads that are named below the axis: as many as there is room for."""
    room, chosen = 50, []
    for name in reversed(panel.sizes):
        if not chosen or panel.x(chosen[-1]) - panel.x(name) >= room:
            chosen.append(name)
    return [*chosen, *panel.lists]


def ticks(low, high):
    """1, 2 and 5 of every power of ten in the range; only powers if that is too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low <= 1e3 else (1,)
    values = (digit * 10.0**power for power in powers for digit in digits)
    return [value for value in values if low * 0.999 <= value <= high * 1.001]


def series(panel, rounds, peer):
    """A peer's points with their ranges, those of single tensors joined by a line."""
    found = {name: ratio(rounds, peer, name) for name in [*panel.sizes, *panel.lists]}
    found = {name: value for name, value in found.items() if value}
    line = [(panel.x(name), panel.y(found[name].median)) for name in panel.sizes if name in found]
    yield f'<g class="{peer}">'
    if line:
        yield f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in line)}"/>'
    for name, value in found.items():
        # Peers stand beside each other in the lists, where they have no line to tell them apart.
        shift = 0 if name in panel.sizes else 14 * (list(NAMES).index(peer) - 1.5)
        x = panel.x(name) + shift
        yield (
            f'<line class="range" x1="{x:.1f}" x2="{x:.1f}" '
            f'y1="{panel.y(value.lowest):.1f}" y2="{panel.y(value.highest):.1f}"/>'
        )
        yield mark(MARKS[peer], x, panel.y(value.median))
    yield "</g>"


def legend(peers):
    """The peers' names with their marks."""
    x = LEFT
    for peer in peers:
        yield f'<g class="{peer}">{mark(MARKS[peer], x + 6, 37)}</g>'
        yield text(x + 18, 41, NAMES[peer], "", "start")
        x += 40 + 8 * len(NAMES[peer])
    yield text(x, 41, "bars: range over the rounds; dashed: equally fast", "small", "start")


def bounds(results, peers):
    """The range of all ratios, widened to the next tick."""
    values = [1.0]
    for rounds in results["rounds"].values():
        for peer in peers:
            for name in results["workloads"]:
                found = ratio(rounds, peer, name)
                values += found[1:] if found else ()
    all_ticks = [digit * 10.0**power for power in range(-5, 7) for digit in (1, 2, 5)]
    low = max(tick for tick in all_ticks if tick <= max(min(values), 1e-4))
    high = min(tick for tick in all_ticks if tick >= min(max(values), 1e6))
    return min(low, 0.5), max(high, 2.0)


def colours():
    """A colour for each peer, in the light and in the dark."""

    def rules(shade):
        return "\n".join(
            f"  .{peer} * {{ fill: {pair[shade]}; stroke: {pair[shade]}; }}"
            f" .{peer} polyline {{ fill: none; stroke-width: 2; }}"
            f" .{peer} .range {{ stroke-opacity: 0.45; stroke-width: 3; }}"
            for peer, pair in COLOURS.items()
        )

    dark = f"@media (prefers-color-scheme: dark) {{{DARK}{rules(1)}\n  }}"
    return f"{STYLE}{rules(0)}\n  {dark}"


def picture(results):
    """The whole picture."""
    peers = present(results)
    single = {label(size): size for size in results["sizes"]}
    sizes = {name: single[name] for name in results["workloads"] if name in single}
    lists = [name for name in results["workloads"] if name not in single]
    low, high = bounds(results, peers)
    height = TOP + PANEL * len(results["rounds"]) - 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>Speed-up of horovod.torch over each peer, by size</title>",
        f"<style>{colours()}</style>",
        f'<rect width="{WIDTH}" height="{height}" class="page"/>',
        text(
            LEFT,
            18,
            "Allreduce: speed-up of horovod.torch over each peer (above 1x, Horovod is faster)",
            "title",
            "start",
        ),
        *legend(peers),
    ]
    for index, (np, rounds) in enumerate(results["rounds"].items()):
        panel = Panel(index, sizes, lists, low, high)
        parts += axes(panel, np)
        for peer in peers:
            parts += series(panel, rounds, peer)
    return "\n".join([*parts, "</svg>\n"])
