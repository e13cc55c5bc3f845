"""Measures how many images per second a model trains with, on images made of noise.

horovodrun -np 2 python examples/jax/jax_synthetic_benchmark.py --model small
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

import horovod.jax as hvd


class Block(nn.Module):
    """The block of ResNet-50: three convolutions and a way around them."""

    width: int
    stride: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Returns four times as many channels as the block's width."""
        way_round = x
        sizes = [(self.width, 1, 1), (self.width, 3, self.stride), (4 * self.width, 1, 1)]
        for number, (channels, size, stride) in enumerate(sizes):
            x = nn.Conv(channels, (size, size), strides=stride, use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=False)(x)
            x = nn.relu(x) if number < 2 else x
        if way_round.shape != x.shape:
            way_round = nn.Conv(4 * self.width, (1, 1), strides=self.stride)(way_round)
        return nn.relu(x + way_round)


class ResNet(nn.Module):
    """Residual networks: `small` has one block in each of two stages, `resnet50` has 16 in four."""

    blocks: tuple[int, ...]
    width: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Returns the scores of 1000 classes."""
        x = nn.Conv(self.width, (7, 7), strides=2, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for stage, count in enumerate(self.blocks):
            for number in range(count):
                x = Block(self.width * 2**stage, 2 if stage and not number else 1)(x)
        return nn.Dense(1000)(x.mean((1, 2)))


MODELS = {"small": ResNet((1, 1), 16), "resnet50": ResNet((3, 4, 6, 3), 64)}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50", choices=sorted(MODELS))
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and rank")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10, help="measurements")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--use-adasum", action="store_true", help="combine by Adasum")
    return parser.parse_args()


def log(text: str) -> None:
    if hvd.rank() == 0:
        print(text, flush=True)


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    size = arguments.image_size
    random = np.random.default_rng(hvd.rank())
    images = jnp.asarray(random.normal(size=(arguments.batch_size, size, size, 3)), "float32")
    labels = jnp.asarray(random.integers(1000, size=arguments.batch_size))
    model = MODELS[arguments.model]
    optimizer = hvd.DistributedOptimizer(
        optax.sgd(0.01),
        compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if arguments.use_adasum else hvd.Average,
    )
    variables = hvd.broadcast_parameters(jax.jit(model.init)(jax.random.key(0), images[:1]))
    params, averages = variables["params"], variables["batch_stats"]
    state = optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        def loss_of(params: Any) -> Any:
            given = {"params": params, "batch_stats": averages}
            scores, _ = model.apply(given, images, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

        updates, state = optimizer.update(jax.grad(loss_of)(params), state, params)
        return optax.apply_updates(params, updates), state

    def steps(count: int) -> float:
        nonlocal params, state
        start = time.perf_counter()
        for _ in range(count):
            params, state = step(params, state)
        jax.block_until_ready(params)
        return time.perf_counter() - start

    log(f"Model: {arguments.model}\nBatch size: {arguments.batch_size}")
    log(f"Number of CPUs: {hvd.size()}")
    steps(arguments.num_warmup_batches)
    rates = []
    for number in range(arguments.num_iters):
        batches = arguments.num_batches_per_iter
        rates.append(arguments.batch_size * batches / steps(batches))
        log(f"Iter #{number}: {rates[-1]:.1f} img/sec per CPU")

    # Every rank has measured its own speed.
    everyones = np.array(hvd.allgather_object(rates))
    totals = everyones.sum(0)
    log(f"Img/sec per CPU: {everyones.mean():.1f} +-{1.96 * everyones.std():.1f}")
    spread = f"{totals.mean():.1f} +-{1.96 * totals.std():.1f}"
    log(f"Total img/sec on {hvd.size()} CPU(s): {spread}")


if __name__ == "__main__":
    main()
