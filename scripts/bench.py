"""Allreduce through `horovod.torch` against `torch.distributed` with gloo, as ratios.

Both sides run as 2 processes under `horovodrun`, one after the other in each round, on the same
tensors; every result is checked once. A ratio above 1 means that horovod is faster. The times are
medians of this run on this machine and say little by themselves.

    python scripts/bench.py [--np 2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

SIZES = [4, 1 << 10, 1 << 16, 1 << 20, 1 << 24]
BATCH = ("200 x 4 KiB", [4096] * 200)
SECONDS_PER_POINT = 0.5


def allreducers(kind):
    """The blocking and the batched allreduce of one side, with its rank and size."""
    if kind == "horovod":
        import horovod.torch as hvd

        hvd.init()

        def one(tensor, name):
            hvd.allreduce_(tensor, name=name, op=hvd.Sum)

        def batch(tensors, name):
            handles = [
                hvd.allreduce_async_(tensor, name=f"{name}.{index}", op=hvd.Sum)
                for index, tensor in enumerate(tensors)
            ]
            for handle in handles:
                hvd.synchronize(handle)

        return one, batch, hvd.rank(), hvd.size()
    import torch.distributed as dist

    rank, size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
    store = f"tcp://127.0.0.1:{os.environ['BENCH_PORT']}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)

    def one(tensor, name):
        dist.all_reduce(tensor)

    def batch(tensors, name):
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    return one, batch, rank, size


def measure(step, tensors, rank, size):
    """Median microseconds of `step`, whose first result is checked."""
    import torch

    for tensor in tensors:
        tensor.fill_(rank + 1)
    step()
    expected = size * (size + 1) / 2
    assert all(bool((tensor == expected).all()) for tensor in tensors), "wrong sum"
    for tensor in tensors:
        tensor.zero_()
    start = time.perf_counter()
    for _ in range(5):
        step()
    estimate = torch.tensor([(time.perf_counter() - start) / 5])
    return estimate, step


def worker(kind):
    """One rank of one side; rank 0 prints its medians as JSON."""
    import torch

    torch.set_num_threads(1)
    one, batch, rank, size = allreducers(kind)
    points = [(str(bytes_), [bytes_], True) for bytes_ in SIZES] + [(*BATCH, False)]
    medians = {}
    for name, sizes, blocking in points:
        tensors = [torch.empty(bytes_ // 4) for bytes_ in sizes]

        def step(tensors=tensors, name=name, blocking=blocking):
            if blocking:
                one(tensors[0], name)
            else:
                batch(tensors, name)

        estimate, step = measure(step, tensors, rank, size)
        one(estimate, f"estimate.{name}")
        count = max(5, min(2000, int(SECONDS_PER_POINT * size / estimate.item())))
        times = []
        for _ in range(count):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        medians[name] = statistics.median(times) * 1e6
    if rank == 0:
        print("RESULT " + json.dumps(medians), flush=True)


def run_side(kind, np):
    """Runs one side as a job and returns rank 0's medians."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = os.path.join(os.path.dirname(sys.executable), "horovodrun")
    command = [launcher, "-np", str(np), sys.executable, __file__, "--worker", kind]
    environment = {**os.environ, "BENCH_PORT": str(port), "OMP_NUM_THREADS": "1"}
    job = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    for line in job.stdout.splitlines():
        if "RESULT " in line:
            return json.loads(line.split("RESULT ", 1)[1])
    sys.exit(f"{kind} gave no result (exit code {job.returncode}):\n{job.stdout}{job.stderr}")


def label(name):
    """A point's name as people read it."""
    if not name.isdigit():
        return name
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if int(name) >= factor:
            return f"{int(name) // factor} {unit}"
    return f"{name} B"


def main():
    """Runs the rounds and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, default=2, help="processes (2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, interleaved (3)")
    parser.add_argument("--worker", choices=["horovod", "gloo"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return
    rounds = []
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds} ...", file=sys.stderr, flush=True)
        rounds.append({kind: run_side(kind, options.np) for kind in ("horovod", "gloo")})
    print(f"\n{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(f"{options.np} processes, {options.rounds} rounds, float32 sum\n")
    print("| | horovod | gloo | ratio (lowest - highest round) |\n|---|---|---|---|")
    for name in rounds[0]["horovod"]:
        ours = [one["horovod"][name] for one in rounds]
        theirs = [one["gloo"][name] for one in rounds]
        ratios = [b / a for a, b in zip(ours, theirs)]
        print(
            f"| {label(name)} | {statistics.median(ours):.0f} us | {statistics.median(theirs):.0f} "
            f"us | **{statistics.median(ratios):.1f}x** ({min(ratios):.1f} - {max(ratios):.1f}) |"
        )


if __name__ == "__main__":
    main()
