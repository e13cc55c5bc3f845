"""Step time with DistributedOptimizer against torch's DistributedDataParallel with gloo, as ratios.

Every process takes part in both: blocks of steps with one and the other alternate in the same run,
so that both see the same machine. A ratio above 1 means that horovod is faster. Also measures what
the hook costs for each parameter, as CPU time of the thread that runs the backward pass.

    python scripts/bench_torch.py [--np 2] [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import subprocess
import sys
import time


def models():
    """What is trained: few large layers, many small ones, convolutions."""
    from torch import nn

    def repeated(count, width):
        return [m for _ in range(count) for m in (nn.Linear(width, width), nn.ReLU())]

    convolutions = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten()]
    return {
        "4 layers of 1024": (nn.Sequential(*repeated(4, 1024)), (16, 1024)),
        "100 layers of 64": (nn.Sequential(*repeated(100, 64)), (16, 64)),
        "convolutions": (nn.Sequential(*convolutions, nn.Linear(4608, 100)), (8, 3, 16, 16)),
    }


def steps(call, optimizer, inputs, count):
    """Seconds per step."""
    start = time.perf_counter()
    for _ in range(count):
        optimizer.zero_grad()
        call(inputs).square().mean().backward()
        optimizer.step()
    return (time.perf_counter() - start) / count


def compare(name, model, shape, rounds, count):
    """Prints a row of the table."""
    import copy

    import torch

    import horovod.torch as hvd

    torch.manual_seed(hvd.rank())
    inputs = torch.randn(shape)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    replica = copy.deepcopy(model)
    parallel = torch.nn.parallel.DistributedDataParallel(replica)
    plain = torch.optim.SGD(replica.parameters(), lr=0.01)
    ours = torch.optim.SGD(model.parameters(), lr=0.01)
    ours = hvd.DistributedOptimizer(ours, model.named_parameters())
    times = {"horovod": [], "ddp": []}
    for number in range(rounds + 1):
        for kind, call, optimizer in [("horovod", model, ours), ("ddp", parallel, plain)]:
            hvd.barrier()
            seconds = steps(call, optimizer, inputs, count)
            if number > 0:
                times[kind].append(seconds)
    for mine, theirs in zip(model.parameters(), replica.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
    ratios = [theirs / mine for mine, theirs in zip(times["horovod"], times["ddp"])]
    if hvd.rank() == 0:
        mine, theirs = (1e3 * statistics.median(times[kind]) for kind in ("horovod", "ddp"))
        spread = f"({min(ratios):.2f} - {max(ratios):.2f})"
        ratio = f"**{statistics.median(ratios):.2f}x** {spread}"
        print(f"| {name} | {mine:.2f} ms | {theirs:.2f} ms | {ratio} |", flush=True)


def hook_cost(parameters=512, rounds=40):
    """Prints what a hook costs: backward passes with and without, the least of many.

    With 16 KiB each the operations start during the backward pass and are part of the cost.
    """
    import torch

    import horovod.torch as hvd

    tensors = [torch.nn.Parameter(torch.ones(4096)) for _ in range(parameters)]

    def backward():
        total = torch.stack([tensor.sum() for tensor in tensors]).sum()
        start = time.thread_time()
        total.backward()
        return time.thread_time() - start

    without = min(backward() for _ in range(rounds))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(tensors, lr=0.1))

    def backward_and_step():
        optimizer.zero_grad(set_to_none=False)
        seconds = backward()
        optimizer.step()
        return seconds

    cost = (min(backward_and_step() for _ in range(rounds)) - without) / parameters
    if hvd.rank() == 0:
        print(f"\nhook: {1e6 * cost:.1f} us of CPU time for each parameter", flush=True)


def worker(rounds, count):
    """One rank."""
    import torch
    import torch.distributed as dist

    import horovod.torch as hvd

    hvd.init()
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{os.environ['BENCH_PORT']}"
    dist.init_process_group("gloo", init_method=address, rank=hvd.rank(), world_size=hvd.size())
    for name, (model, shape) in models().items():
        compare(name, model, shape, rounds, count)
    hook_cost()
    dist.destroy_process_group()


def main():
    """Starts the job and prints the table without the prefixes of the ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, default=2, help="processes (2)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds, interleaved (7)")
    parser.add_argument("--steps", type=int, default=20, help="steps in a round (20)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.rounds, options.steps)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(f"{options.np} processes, {options.rounds} rounds of {options.steps} steps, float32\n")
    print("| model | horovod | DDP (gloo) | ratio (lowest - highest round) |\n|---|---|---|---|")
    sys.stdout.flush()
    launch = [sys.executable, "-m", "horovod.runner.launch", "-np", str(options.np)]
    again = [sys.executable, *sys.argv, "--worker"]
    environment = {**os.environ, "BENCH_PORT": str(port), "OMP_NUM_THREADS": "1"}
    job = subprocess.run(
        [*launch, *again], env=environment, text=True, stdout=subprocess.PIPE, timeout=600
    )
    print("\n".join(line.removeprefix("[0]<stdout>:") for line in job.stdout.splitlines()))
    sys.exit(job.returncode)


if __name__ == "__main__":
    main()
