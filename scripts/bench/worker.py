"""One rank of a Python peer: runs the workloads of a file and prints rank 0's medians.

python worker.py horovod|gloo|ddp WORKLOADS SECONDS

`WORKLOADS` has the bytes of one workload's tensors on each line. Every result is checked once; then
the workload is repeated for SECONDS. Time is rank 0's, operations back to back on the same memory.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import torch


class Horovod:
    """Our own operations, by name."""

    def __init__(self):
        import horovod.torch as hvd

        hvd.init()
        self.hvd, self.rank, self.size = hvd, hvd.rank(), hvd.size()

    def end(self):
        """Leaves the job."""
        self.hvd.shutdown()

    def one(self, tensor, name):
        """A blocking allreduce."""
        self.hvd.allreduce_(tensor, name=name, op=self.hvd.Sum)

    def many(self, tensors, name):
        """All at once, then waited for."""
        start, total = self.hvd.allreduce_async_, self.hvd.Sum
        handles = [start(each, name=f"{name}.{i}", op=total) for i, each in enumerate(tensors)]
        for handle in handles:
            self.hvd.synchronize(handle)


class Gloo:
    """torch.distributed, one operation for each tensor."""

    def __init__(self):
        import torch.distributed as dist

        self.dist = dist
        self.rank, self.size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
        address = f"tcp://127.0.0.1:{os.environ['BENCH_PORT']}"
        dist.init_process_group("gloo", init_method=address, rank=self.rank, world_size=self.size)

    def end(self):
        """Leaves the job, together: gloo does not take it well if a peer is gone."""
        self.dist.barrier()
        self.dist.destroy_process_group()

    def one(self, tensor, name):
        """A blocking allreduce."""
        self.dist.all_reduce(tensor)

    def many(self, tensors, name):
        """All at once, then waited for."""
        for work in [self.dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()


class Ddp(Gloo):
    """The same in buckets, as DistributedDataParallel makes them: one of 1 MiB, then of 25 MiB."""

    def __init__(self):
        super().__init__()
        self.buckets = {}

    def many(self, tensors, name):
        """Copies into the buckets, reduces them, copies back."""
        if name not in self.buckets:
            self.buckets[name] = [self.bucket(part) for part in split(tensors)]
        under_way = []
        for flat, views, members in self.buckets[name]:
            torch._foreach_copy_(views, members)
            under_way.append(self.dist.all_reduce(flat, async_op=True))
        for work, (_, views, members) in zip(under_way, self.buckets[name]):
            work.wait()
            torch._foreach_copy_(members, views)

    @staticmethod
    def bucket(tensors):
        """One stretch of memory for some tensors, with a view of it for each."""
        flat = torch.empty(sum(tensor.numel() for tensor in tensors))
        return flat, list(flat.split([tensor.numel() for tensor in tensors])), tensors


def split(tensors, first=1 << 20, others=25 << 20):
    """Neighbours that share a bucket."""
    parts, room = [], 0
    for tensor in tensors:
        if not parts or tensor.nbytes > room:
            room = others if parts else first
            parts.append([])
        parts[-1].append(tensor)
        room -= tensor.nbytes
    return parts


def measure(peer, name, sizes, seconds):
    """Median microseconds of a step."""
    tensors = [torch.full((size // 4,), peer.rank + 1.0) for size in sizes]

    def step():
        if len(tensors) == 1:
            peer.one(tensors[0], name)
        else:
            peer.many(tensors, name)

    step()
    total = peer.size * (peer.size + 1) / 2
    assert all(bool((tensor == total).all()) for tensor in tensors), f"wrong sum: {name}"
    for tensor in tensors:
        tensor.zero_()
    count = agree_on_count(peer, name, step, seconds)
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def agree_on_count(peer, name, step, seconds):
    """Warms up, and finds with the other ranks how many steps take about that long."""
    start, warm = time.perf_counter(), 0
    estimate = torch.zeros(1)
    while estimate.item() < seconds / 4:
        step()
        warm += 1
        elapsed = time.perf_counter() - start
        estimate = torch.tensor([elapsed / peer.size])
        peer.one(estimate, f"{name}.estimate")
    return max(3, min(5000, int(warm * seconds / estimate.item())))


def main():
    """Runs all workloads."""
    kind, path, seconds = sys.argv[1:]
    torch.set_num_threads(1)
    peer = {"horovod": Horovod, "gloo": Gloo, "ddp": Ddp}[kind]()
    with open(path) as lines:
        for index, line in enumerate(lines):
            sizes = [int(size) for size in line.split()]
            # A single tensor has no buckets: the same as without.
            if kind == "ddp" and len(sizes) == 1:
                continue
            median = measure(peer, f"work.{index}", sizes, float(seconds))
            if peer.rank == 0:
                print(f"RESULT {index} {median:.3f}", flush=True)
    peer.end()


if __name__ == "__main__":
    main()
