"""The measurements as a page: what was run, one table, one picture."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from peers import NAMES


class Ratio(NamedTuple):
    """Speed-up over a peer, its time divided by ours: median and range over the rounds."""

    median: float
    lowest: float
    highest: float


def ratio(rounds, peer, name):
    """A peer's ratio for a workload; `None` if it was not measured."""
    values = [
        one[peer][name] / one["horovod"][name]
        for one in rounds
        if name in one.get(peer, {}) and name in one["horovod"]
    ]
    return Ratio(statistics.median(values), min(values), max(values)) if values else None


def duration(microseconds):
    """Microseconds with about three digits."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:.3g} {unit}"
    return f"{microseconds:.3g} us"


def number(value):
    """A ratio as people read it."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"


def table(results):
    """One row for each number of processes and workload, one column for each peer."""
    peers = present(results)
    lines = [
        f"| processes | tensors | horovod | {' | '.join(NAMES[peer] for peer in peers)} |",
        f"|---|---|---|{'---|' * len(peers)}",
    ]
    for np, rounds in results["rounds"].items():
        for name in results["workloads"]:
            ours = [one["horovod"][name] for one in rounds if name in one["horovod"]]
            if not ours:
                continue
            cells = [cell(ratio(rounds, peer, name)) for peer in peers]
            time = duration(statistics.median(ours))
            lines.append(f"| {np} | {name} | {time} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(value):
    """A ratio with its range; nothing where nothing was measured."""
    if value is None:
        return ""
    return f"**{number(value.median)}** ({number(value.lowest)} - {number(value.highest)})"


def present(results):
    """The peers that were measured, in the order of the table."""
    rounds = [one for rounds in results["rounds"].values() for one in rounds]
    return [peer for peer in NAMES if any(peer in one for one in rounds)]


def page(results, picture):
    """The whole page."""
    counts = sorted({len(rounds) for rounds in results["rounds"].values()})
    rounds = " and ".join(map(str, counts))
    return f"""# Allreduce against its peers

```
{results["command"]}
```

![Ratios by size]({picture})

Made by that command on {results["date"]}: {results["machine"]}.
In each of {rounds} rounds every peer runs once, one job after the other. The columns of the peers
show the speed-up of `horovod.torch` over each of them (above 1, Horovod is faster): median and
range over the rounds. All jobs sum float32 tensors in place and check the results. Single tensors
use a blocking call; lists of tensors are submitted together and then waited for. *DDP buckets*
copies a list into buckets as `DistributedDataParallel` does. The MPI programs are C, not Python.

{table(results)}

Compare only ratios of one run, and only on an otherwise idle machine. With more processes than
cores, a peer that spins while it waits loses whole time slices; such rows do not predict its speed
with one core per process.
"""
