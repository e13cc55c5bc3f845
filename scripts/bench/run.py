"""Measures allreduce of horovod.torch and of installed peers; writes page, picture, README's table.

Rounds are interleaved: every peer runs once in each. Numbers are ratios of one run on one machine.

    python scripts/bench/run.py [--np 2,4] [--rounds 3] [--seconds 0.15] [--out docs/benchmarks]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import page
import peers
import picture
import readme
from workloads import MIB, SWEEP, workloads


def arguments():
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", default="2,4", help="numbers of processes (2,4)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3)")
    parser.add_argument("--seconds", type=float, default=0.15, help="for each measurement (0.15)")
    parser.add_argument("--largest", type=int, default=256, help="largest tensor in MiB (256)")
    parser.add_argument("--peers", help="only these: gloo,ddp,openmpi,mpich (all)")
    parser.add_argument("--out", type=Path, help="folder for allreduce.md and allreduce.svg")
    parser.add_argument("--save", type=Path, help="keep the measurements in this file")
    parser.add_argument("--load", type=Path, help="measure nothing, take them from this file")
    return parser.parse_args()


def machine():
    """This machine in general terms."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{platform.machine()}, {os.cpu_count()} cores, {gigabytes:.0f} GiB of memory, one host"


def measure(options):
    """Runs everything."""
    work = workloads(options.largest * MIB)
    results = {
        "command": " ".join(["make bench", *bench_options()]),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "workloads": [one.name for one in work],
        "sizes": [size for size in SWEEP if size <= options.largest * MIB],
        "rounds": {np: [] for np in options.np.split(",")},
    }
    with tempfile.TemporaryDirectory() as folder:
        chosen = peers.installed(folder)
        if options.peers:
            names = ["horovod", *options.peers.split(",")]
            chosen = [peer for peer in chosen if peer.kind in names]
        for number in range(options.rounds):
            for np, rounds in results["rounds"].items():
                one = {}
                for peer in chosen:
                    start = time.monotonic()
                    one[peer.kind] = peers.run(peer, int(np), work, options.seconds, folder)
                    seconds = time.monotonic() - start
                    where = f"round {number + 1} of {options.rounds}, {np} processes"
                    print(f"{where}: {peer.kind} ({seconds:.0f} s)", file=sys.stderr, flush=True)
                rounds.append(one)
    return results


def bench_options():
    """The options in the form in which `make bench` takes them; where to write is no part of it."""
    kept = [word for word in sys.argv[1:] if not word.startswith(("--out", "--save"))]
    return [f"OPTIONS='{' '.join(kept)}'"] if kept else []


def main():
    """Measures, prints the table, and writes the page if asked to."""
    options = arguments()
    results = json.loads(options.load.read_text()) if options.load else measure(options)
    if options.save:
        options.save.write_text(json.dumps(results) + "\n")
    print(page.table(results))
    if options.out:
        text = page.page(results, "allreduce.svg")
        (options.out / "allreduce.md").write_text(text)
        (options.out / "allreduce.svg").write_text(picture.picture(results))
        if (options.out / "allreduce.md").resolve() == readme.PAGE:
            readme.write(text)


if __name__ == "__main__":
    main()
