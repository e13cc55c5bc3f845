"""Teaches a small network to read digits, with NumPy only and as many processes as you like.

    horovodrun -np 2 python examples/numpy/digits.py

Each rank trains on its own part of the images. The ranks stay equal because they start with the
same weights (1), and because every step uses the average of their gradients (2).
"""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

import numpy as np

import horovod.numpy as hvd

DATA = Path(__file__).parent.parent / "data" / "digits.npz"
HELD_OUT = 1000


def initial_weights(pixels: int, hidden: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "hidden.weight": random.normal(0, np.sqrt(2 / pixels), (pixels, hidden)),
        "hidden.bias": np.zeros(hidden),
        "output.weight": random.normal(0, np.sqrt(2 / hidden), (hidden, 10)),
        "output.bias": np.zeros(10),
    }


def predict(weights: dict[str, np.ndarray], images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the activations of the hidden layer and the probability of each digit."""
    hidden = np.maximum(images @ weights["hidden.weight"] + weights["hidden.bias"], 0)
    scores = hidden @ weights["output.weight"] + weights["output.bias"]
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, exponentials / exponentials.sum(axis=1, keepdims=True)


def loss_and_gradients(
    weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    hidden, probabilities = predict(weights, images)
    rows = np.arange(len(labels))
    loss = -np.log(probabilities[rows, labels] + 1e-12).mean()
    at_output = probabilities
    at_output[rows, labels] -= 1
    at_output /= len(labels)
    at_hidden = (at_output @ weights["output.weight"].T) * (hidden > 0)
    return loss, {
        "hidden.weight": images.T @ at_hidden,
        "hidden.bias": at_hidden.sum(axis=0),
        "output.weight": hidden.T @ at_output,
        "output.bias": at_output.sum(axis=0),
    }


def accuracy(weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> float:
    return float((predict(weights, images)[1].argmax(axis=1) == labels).mean())


def train_epoch(
    weights: dict[str, np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    arguments: argparse.Namespace,
    random: np.random.Generator,
) -> float:
    order = random.permutation(len(images))
    batches = len(order) // arguments.batch_size
    losses = []
    for batch in np.split(order[: batches * arguments.batch_size], batches):
        loss, gradients = loss_and_gradients(weights, images[batch], labels[batch])
        # (2) All gradients travel at once; then each is waited for.
        handles = {
            name: hvd.allreduce_async_(gradient, name=name, op=hvd.Average)
            for name, gradient in gradients.items()
        }
        for name, handle in handles.items():
            weights[name] -= arguments.learning_rate * hvd.synchronize(handle)
        losses.append(loss)
    return float(hvd.allreduce(np.mean(losses), name="loss", op=hvd.Average))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=25, help="images per step and rank")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--every-rank", action="store_true", help="each rank prints its test loss")
    arguments = parser.parse_args()

    hvd.init()
    with np.load(DATA) as data:
        images = data["images"].reshape(len(data["images"]), -1) / 7.0
        labels = data["labels"].astype(np.int64)
    mine = slice(HELD_OUT + hvd.rank(), None, hvd.size())
    # Equal shares, so that every rank has the same number of steps.
    share = (len(images) - HELD_OUT) // hvd.size()
    my_images, my_labels = images[mine][:share], labels[mine][:share]

    random = np.random.default_rng(hvd.rank())
    weights = initial_weights(images.shape[1], arguments.hidden, random)
    # (1) Every rank drew its own weights; from here on all have those of rank 0.
    hvd.broadcast_parameters(weights, root_rank=0)

    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks, {share} training images each", flush=True)
    for epoch in range(1, arguments.epochs + 1):
        loss = train_epoch(weights, my_images, my_labels, arguments, random)
        correct = hvd.allreduce(accuracy(weights, my_images, my_labels), name="accuracy")
        if hvd.rank() == 0:
            print(f"epoch {epoch:2}  loss {loss:.3f}  accuracy {correct:6.1%}", flush=True)
    if arguments.every_rank:
        loss, _ = loss_and_gradients(weights, images[:HELD_OUT], labels[:HELD_OUT])
        where = f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}"
        print(f"{where}: test loss {loss:.6f}", flush=True)
    if hvd.rank() == 0:
        held_out = accuracy(weights, images[:HELD_OUT], labels[:HELD_OUT])
        print(f"accuracy on {HELD_OUT} images never seen in training: {held_out:.1%}", flush=True)


if __name__ == "__main__":
    main()
