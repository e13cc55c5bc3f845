"""Our allreduce over MPI next to plain MPI_Allreduce, on hosts made of namespaces (as root).

One rank on each host, both started by the same `mpirun`; rounds are interleaved. Prints a Markdown
table: medians of all rounds, and the speed relative to plain MPI (above 1, Horovod is faster).

    .venv/bin/python scripts/bench_mpi.py [--hosts 2] [--rounds 5] [--seconds 0.5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).parents[1]
BENCH = TREE / "scripts/bench"
sys.path[:0] = [str(BENCH), str(TREE / "tests/hosts")]

from cluster import Cluster  # noqa: E402
from sshd import PORT  # noqa: E402
from workloads import MIB, label  # noqa: E402

SSH = f"Host *\n  Port {PORT}\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"


def command(kind: str, hosts: list[str], variables: dict[str, str]) -> list[str]:
    """The beginning of a command line of one kind of MPI."""
    places = ",".join(f"{host}:1" for host in hosts)
    start = [f"mpirun.{kind}", "-np", str(len(hosts))]
    if kind == "openmpi":
        options = ["--allow-run-as-root", "--bind-to", "none", "--mca", "pml", "ob1", "-H", places]
        return [
            *start,
            *options,
            *(word for name, value in variables.items() for word in ("-x", f"{name}={value}")),
        ]
    settings = [word for pair in variables.items() for word in ("-genv", *pair)]
    return [*start, "-hosts", places, *settings]


def measure(host, words: list[str], sizes: list[int]) -> list[float]:
    """Median microseconds of each size in one job."""
    job = host.run(words, timeout=300)
    results = [float(line.split()[-1]) for line in job.stdout.splitlines() if "RESULT " in line]
    if job.returncode != 0 or len(results) != len(sizes):
        sys.exit(f"{' '.join(words)} failed:\n{job.stdout}{job.stderr}")
    return results


def compare(kind: str, options: argparse.Namespace, folder: str) -> None:
    """Both programs with one kind of MPI, in turn."""
    names = [f"host{letter}" for letter in "abcdefgh"[: options.hosts]]
    program, work = f"{folder}/{kind}", f"{folder}/workloads"
    subprocess.run([f"mpicc.{kind}", "-O2", "-w", "-o", program, BENCH / "mpi.c"], check=True)
    sizes = [mebibytes * MIB for mebibytes in options.sizes]
    Path(work).write_text("".join(f"{size}\n" for size in sizes))
    common = {"OMP_NUM_THREADS": "1"}
    ours = {**common, "HOROVOD_CPU_OPERATIONS": "mpi"}
    worker = [sys.executable, str(BENCH / "worker.py"), "horovod"]
    rounds: dict[str, list[list[float]]] = {"plain": [], "ours": []}
    with Cluster(names) as cluster:
        for host in cluster:
            host.path("/root/.ssh/config").write_text(SSH)
            setting = f"net.ipv4.tcp_congestion_control={options.congestion}"
            host.namespace.do("sysctl", "-qw", setting)
        first, ending = cluster[names[0]], [work, str(options.seconds)]
        for number in range(options.rounds):
            plain = [*command(kind, names, common), program, *ending]
            rounds["plain"].append(measure(first, plain, sizes))
            own = [*command(kind, names, ours), *worker, *ending]
            rounds["ours"].append(measure(first, own, sizes))
            print(f"{kind}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    for index, size in enumerate(sizes):
        plain, own = ([one[index] for one in rounds[who]] for who in ("plain", "ours"))
        ratios = [one / another for one, another in zip(plain, own)]
        medians = [f"{statistics.median(times) / 1000:.2f} ms" for times in (plain, own)]
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        speed = f"{statistics.median(ratios):.2f}x ({spread})"
        print(f"| {kind} | {label(size)} | {medians[0]} | {medians[1]} | {speed} |", flush=True)


def main() -> None:
    """Reads the options and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=2, help="hosts, one rank on each (2)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each measurement (0.5)")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1, 4, 16, 64], help="of tensors, in MiB"
    )
    parser.add_argument("--libraries", nargs="+", default=["openmpi", "mpich"], help="of MPI")
    parser.add_argument("--congestion", default="reno", help="TCP congestion control (reno)")
    options = parser.parse_args()
    print("| library | tensor | plain MPI | Horovod over MPI | speed |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.libraries:
            compare(kind, options, folder)


if __name__ == "__main__":
    main()
