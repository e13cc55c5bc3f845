"""Measures how many images per second a model trains with, on images made of noise.

horovodrun -np 2 python examples/pytorch/pytorch_synthetic_benchmark.py --model small
"""

from __future__ import annotations

import argparse
import os
import time

import models
import torch
import torch.nn.functional as F

import horovod.torch as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50", help="of torchvision; or resnet50, small")
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and rank")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10, help="measurements")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--use-adasum", action="store_true", help="combine by Adasum")
    parser.add_argument("--no-cuda", action="store_true", help="use the CPU even if there is a GPU")
    return parser.parse_args()


def log(text: str) -> None:
    if hvd.rank() == 0:
        print(text, flush=True)


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    # Horovod: the processes of a host share its cores.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))
    device = torch.device("cpu")
    if torch.cuda.is_available() and not arguments.no_cuda:
        device = torch.device("cuda", hvd.local_rank())
        torch.cuda.set_device(device)
    model = models.create(arguments.model).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if arguments.use_adasum else hvd.Average,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    size = arguments.image_size
    images = torch.randn(arguments.batch_size, 3, size, size, device=device)
    labels = torch.randint(1000, (arguments.batch_size,), device=device)

    def steps(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    kind = device.type.upper()
    log(f"Model: {arguments.model}\nBatch size: {arguments.batch_size}")
    log(f"Number of {kind}s: {hvd.size()}")
    steps(arguments.num_warmup_batches)
    rates = []
    for number in range(arguments.num_iters):
        batches = arguments.num_batches_per_iter
        rates.append(arguments.batch_size * batches / steps(batches))
        log(f"Iter #{number}: {rates[-1]:.1f} img/sec per {kind}")

    # Every rank has measured its own speed.
    everyones = hvd.allgather(torch.tensor([rates], dtype=torch.float64))
    mean, spread = everyones.mean(), 1.96 * everyones.std(correction=0)
    total, total_spread = everyones.sum(0).mean(), 1.96 * everyones.sum(0).std(correction=0)
    log(f"Img/sec per {kind}: {mean:.1f} +-{spread:.1f}")
    log(f"Total img/sec on {hvd.size()} {kind}(s): {total:.1f} +-{total_spread:.1f}")


if __name__ == "__main__":
    main()
