"""horovod.jax next to JAX's own psum over gloo and to mpi4jax, as ratios.

Each peer is a job of its own on this host, with one device in each process and the same settings of
XLA; jobs of all peers alternate, so that all see the same machine. Prints Markdown tables: medians
of the rounds, and the speed-up over each peer (above 1, Horovod is faster) with its range.

    python scripts/bench_jax.py [--np 2] [--rounds 5] [--scale 1] [--low] [--only reductions|steps]

Needs jax, flax and optax; for mpi4jax that package and Debian's `libopenmpi-dev openmpi-bin`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).parent / "bench/jax_worker.py"
PEERS = {"horovod": "Horovod", "distributed": "psum (gloo)", "mpi4jax": "mpi4jax"}
MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "--mca", "pml", "ob1"]
ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=1",
}
# In each round, by peer and what was measured.
Rounds = "list[dict[str, dict[str, dict[str, float]]]]"


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def commands(peer: str, count: int, worker: list[str]) -> list[tuple[list[str], dict[str, str]]]:
    """The processes to start for a job, with their variables."""
    if peer == "horovod":
        launch = [sys.executable, "-m", "horovod.runner.launch", "-np", str(count)]
        return [([*launch, *worker], {})]
    if peer == "mpi4jax":
        return [([*MPIRUN, "-np", str(count), *worker], {})]
    common = {"BENCH_SIZE": str(count), "BENCH_PORT": str(free_port())}
    return [(worker, {**common, "BENCH_RANK": str(rank)}) for rank in range(count)]


def run(peer: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """One job: what rank 0 measured, by what it was."""
    worker = [sys.executable, str(WORKER), peer, str(options.scale), *options.only]
    jobs = [
        subprocess.Popen(
            words,
            env={**os.environ, **ONE_THREAD, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words, variables in commands(peer, options.np, worker)
    ]
    try:
        outputs = [job.communicate(timeout=120) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    lines = [line for out, _ in outputs for line in out.splitlines() if "RESULT " in line]
    if any(job.returncode for job in jobs) or not lines:
        sys.exit(f"the job of {peer} failed:\n{outputs}")
    results = [json.loads(line.split("RESULT ", 1)[1]) for line in lines]
    times = ", ".join(f"{it['what']}: {time_text(it['us'])}" for it in results)
    print(f"{peer}: {times}", file=sys.stderr, flush=True)
    return {result["what"]: result for result in results}


def check(rounds: Rounds) -> None:
    """All peers have to come to the same results."""
    for one in rounds:
        for what, mine in one["horovod"].items():
            for peer, results in one.items():
                theirs = results[what]["check"]
                if not math.isclose(mine["check"], theirs, rel_tol=1e-3):
                    sys.exit(f"{what}: {peer} has {theirs}, horovod {mine['check']}")


def time_text(microseconds: float) -> str:
    """A time as people read it."""
    if microseconds < 1000:
        return f"{microseconds:.0f} us"
    return f"{microseconds / 1000:.2f} ms"


def row(what: str, rounds: Rounds, peers: list[str], which: str) -> str:
    """A line of the table."""
    times = {peer: [one[peer][what][which] for one in rounds] for peer in peers}
    cells = [what, *(time_text(statistics.median(times[peer])) for peer in peers)]
    for peer in peers[1:]:
        ratios = [theirs / mine for mine, theirs in zip(times["horovod"], times[peer])]
        spread = f"({min(ratios):.2f} - {max(ratios):.2f})"
        cells.append(f"**{statistics.median(ratios):.2f}x** {spread}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs the jobs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, default=2, help="processes (2)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, interleaved (5)")
    parser.add_argument("--scale", type=float, default=1, help="factor of the calls in a round (1)")
    parser.add_argument(
        "--low", action="store_true", help="the fastest tenth of the calls: on a busy machine"
    )
    parser.add_argument("--peers", nargs="*", default=["distributed", "mpi4jax"], choices=PEERS)
    parser.add_argument("--only", nargs="+", default=["reductions", "steps"])
    options = parser.parse_args()
    peers = ["horovod", *options.peers]
    rounds = []
    for number in range(options.rounds):
        order = peers if number % 2 == 0 else peers[::-1]
        rounds.append({peer: run(peer, options) for peer in order})
        load = os.getloadavg()[0]
        print(f"round {number + 1} of {options.rounds}, load {load:.1f}", file=sys.stderr)
    check(rounds)
    names = [PEERS[peer] for peer in peers]
    head = ["float32", *names, *(f"speed-up over {name}" for name in names[1:])]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for what in rounds[0]["horovod"]:
        print(row(what, rounds, peers, "low" if options.low else "us"))


if __name__ == "__main__":
    main()
