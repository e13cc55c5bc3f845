"""Does random harm to random jobs, and checks what comes of it.

    python tests/chaos/chaos.py --faults 20 --seed 1 --transport both --np 2-6

Prints a line per fault and a table at the end; exits with 1 if anything went wrong. A fault that
did is repeated by its own number: `--only KIND --seed SEED --faults 1`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from campaign import Fault, commit, draw
from faults import KINDS, is_possible


def span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=len(KINDS), help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first (%(default)s)")
    parser.add_argument("--transport", choices=["shm", "tcp", "both"], default="both")
    parser.add_argument("--np", type=span, default=span("2-6"), help="ranks, as 4 or 2-6")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="kinds of faults")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin none after this time")
    parser.add_argument("--logs", type=Path, help="folder for the output of jobs that went wrong")
    return parser.parse_args()


def main() -> int:
    # A shell that starts this in the background has Ctrl-C ignored, and so would every job.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = arguments()
    transports = ["shm", "tcp"] if options.transport == "both" else [options.transport]
    kinds = [
        name
        for name in options.only or KINDS
        if set(transports) & set(KINDS[name].transports) and is_possible(KINDS[name])
    ]
    counts: Counter[str] = Counter()
    failures: list[tuple[Fault, str]] = []
    begin = time.monotonic()
    for seed in range(options.seed, options.seed + options.faults):
        if time.monotonic() - begin > options.seconds:
            break
        fault = draw(seed, kinds, transports, options.np)
        start = time.monotonic()
        wrong = commit(fault, options.logs)
        counts[f"{fault.kind} {fault.transport}"] += 1
        if wrong:
            failures.append((fault, wrong))
        load = os.getloadavg()[0]
        took = time.monotonic() - start
        print(f"{fault} {took:5.1f} s load {load:4.1f}  {wrong or 'ok'}", flush=True)
    report(counts, failures, time.monotonic() - begin)
    return 1 if failures else 0


def report(counts: Counter[str], failures: list[tuple[Fault, str]], seconds: float) -> None:
    wrong = Counter(f"{fault.kind} {fault.transport}" for fault, _ in failures)
    print(f"\n{'kind':20} {'faults':>6} {'wrong':>6}")
    for name in sorted(counts):
        print(f"{name:20} {counts[name]:6} {wrong[name]:6}")
    print(f"{'all':20} {sum(counts.values()):6} {len(failures):6}   in {seconds:.0f} s")
    for fault, text in failures:
        print(f"WRONG {fault}: {text}")


if __name__ == "__main__":
    sys.exit(main())
