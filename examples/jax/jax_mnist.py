"""Trains a small network on handwritten digits with every process taking part.

    horovodrun -np 2 python examples/jax/jax_mnist.py

The lines marked "Horovod:" are all that differs from training in one process. The network is
plain JAX; `flax_cifar.py` uses flax.
"""

from __future__ import annotations

import argparse
from typing import Any

import digits_data
import jax
import jax.numpy as jnp
import optax

import horovod.jax as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=50, help="images per step and rank")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of one rank")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--use-adasum", action="store_true", help="combine by Adasum")
    parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
    parser.add_argument("--backward-passes-per-step", type=int, default=1)
    return parser.parse_args()


def initial_parameters(key: Any, sizes: list[int]) -> list[dict[str, Any]]:
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (n, m)) * (2 / n) ** 0.5, "b": jnp.zeros(m)}
        for k, n, m in zip(keys, sizes, sizes[1:])
    ]


def predict(params: list[dict[str, Any]], images: Any) -> Any:
    x = images.reshape(len(images), -1)
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_of(params: Any, images: Any, labels: Any) -> Any:
    scores = predict(params, images)
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


@jax.jit
def accuracy_of(params: Any, images: Any, labels: Any) -> Any:
    correct = (predict(params, images).argmax(1) == labels).mean()
    # Horovod: every rank has tested its part; average them.
    return hvd.allreduce(correct, name="accuracy")


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job.
    hvd.init()
    # Horovod: every rank gets its own part of the data.
    train_data, test_data = (digits_data.mine(each) for each in digits_data.load_digits())

    params = initial_parameters(jax.random.key(arguments.seed), [256, arguments.hidden, 10])
    # Horovod: a step uses size() times as many images, so it may be that much longer. Adasum finds
    # the right length by itself.
    optimizer = optax.adam(arguments.lr * (1 if arguments.use_adasum else hvd.size()))
    # Horovod: average gradients over all ranks, in one collective per step.
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if arguments.use_adasum else hvd.Average,
        gradient_predivide_factor=arguments.gradient_predivide_factor,
        backward_passes_per_step=arguments.backward_passes_per_step,
    )
    # Horovod: start equal on all ranks.
    params = hvd.broadcast_parameters(params, root_rank=0)
    state = hvd.broadcast_optimizer_state(optimizer.init(params), root_rank=0)

    @jax.jit
    def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, images, labels)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    for epoch in range(1, arguments.epochs + 1):
        for images, labels in digits_data.batches(train_data, arguments.batch_size, epoch):
            params, state, loss = step(params, state, images, labels)
        accuracy = accuracy_of(params, *test_data)
        if hvd.rank() == 0:
            print(f"epoch {epoch}  loss {loss:.4f}  accuracy {accuracy:.1%}", flush=True)


if __name__ == "__main__":
    main()
