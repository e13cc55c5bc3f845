"""Trains a convolutional network with batch normalization over all ranks, on CIFAR-10 or digits.

    horovodrun -np 2 python examples/jax/flax_cifar.py --data cifar-10-batches-py

Nothing is downloaded. Without `--data`, the folder of CIFAR-10's "python version", it uses the
digits that come with Horovod. Unpickling executes what it reads: use files that you trust.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

import digits_data
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

import horovod.jax as hvd
from horovod.jax.linen import SyncBatchNorm


class Net(nn.Module):
    """Three convolutions, each with a normalization over the batches of all ranks."""

    width: int

    @nn.compact
    def __call__(self, x: Any, train: bool) -> Any:
        """Returns the scores of the ten classes."""
        for number in range(3):
            x = nn.Conv(self.width * 2**number, (3, 3), strides=2 if number else 1, use_bias=False)(
                x
            )
            # Horovod: the batch of a rank may be too small for good statistics; use all of them.
            x = nn.relu(SyncBatchNorm(use_running_average=not train, momentum=0.9)(x))
        return nn.Dense(10)(x.mean((1, 2)))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder cifar-10-batches-py; without, digits")
    parser.add_argument("--batch-size", type=int, default=50, help="images per step and rank")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.003, help="learning rate of one rank")
    parser.add_argument("--width", type=int, default=16, help="channels of the first convolution")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def load_cifar(folder: Path) -> tuple[digits_data.Data, digits_data.Data]:
    def load(*names: str) -> digits_data.Data:
        parts = [pickle.loads((folder / name).read_bytes(), encoding="bytes") for name in names]
        pixels = np.concatenate([part[b"data"] for part in parts]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([part[b"labels"] for part in parts]).astype("int32")
        return (pixels.transpose(0, 2, 3, 1) / 255).astype("float32"), labels

    return load(*(f"data_batch_{number}" for number in range(1, 6))), load("test_batch")


def load(folder: Path | None) -> tuple[digits_data.Data, digits_data.Data]:
    if folder is not None:
        return load_cifar(folder)
    if hvd.rank() == 0:
        print("no --data: training on digits instead of CIFAR-10", flush=True)
    return digits_data.load_digits()


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job, and take a part of the data.
    hvd.init()
    train_data, test_data = (digits_data.mine(each) for each in load(arguments.data))

    model = Net(arguments.width)
    variables = model.init(jax.random.key(arguments.seed), train_data[0][:1], train=False)
    # Horovod: average gradients over all ranks, and start equal.
    optimizer = hvd.DistributedOptimizer(optax.adam(arguments.lr * hvd.size()))
    variables = hvd.broadcast_parameters(variables, root_rank=0)
    state = optimizer.init(variables["params"])

    @jax.jit
    def step(variables: Any, state: Any, images: Any, labels: Any) -> Any:
        def loss_of(params: Any) -> Any:
            given = {**variables, "params": params}
            scores, new = model.apply(given, images, train=True, mutable=["batch_stats"])
            losses = optax.softmax_cross_entropy_with_integer_labels(scores, labels)
            return losses.mean(), new

        params = variables["params"]
        (loss, new), gradients = jax.value_and_grad(loss_of, has_aux=True)(params)
        updates, state = optimizer.update(gradients, state, params)
        return {**new, "params": optax.apply_updates(params, updates)}, state, loss

    @jax.jit
    def correct_in(variables: Any, images: Any, labels: Any) -> Any:
        return (model.apply(variables, images, train=False).argmax(1) == labels).sum()

    for epoch in range(1, arguments.epochs + 1):
        for images, labels in digits_data.batches(train_data, arguments.batch_size, epoch):
            variables, state, loss = step(variables, state, images, labels)
        tests = digits_data.batches(test_data, min(100, len(test_data[0])), 0)
        counts = [(correct_in(variables, *batch), len(batch[0])) for batch in tests]
        # Horovod: every rank has tested its part; add them up.
        correct, count = hvd.allreduce(jnp.asarray(counts).sum(0), op=hvd.Sum, name="test")
        if hvd.rank() == 0:
            accuracy = int(correct) / int(count)
            print(f"epoch {epoch}  loss {loss:.4f}  accuracy {accuracy:.1%}", flush=True)


if __name__ == "__main__":
    main()
