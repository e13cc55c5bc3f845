"""Trains a small convolutional network on images of digits with every process taking part.

    horovodrun -np 2 python examples/mxnet/mxnet_mnist.py

The lines marked "Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse

import digits
import mxnet as mx
from mxnet import autograd, gluon

import horovod.mxnet as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate of one rank")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
    parser.add_argument("--save", help="file to which rank 0 writes the parameters")
    return parser.parse_args()


def network() -> gluon.nn.HybridSequential:
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, kernel_size=3, activation="relu"),
        gluon.nn.MaxPool2D(pool_size=2),
        gluon.nn.Conv2D(32, kernel_size=3, activation="relu"),
        gluon.nn.MaxPool2D(pool_size=2),
        gluon.nn.Flatten(),
        gluon.nn.Dense(64, activation="relu"),
        gluon.nn.Dense(10),
    )
    return net


def accuracy(net: gluon.nn.HybridSequential, part: digits.Part) -> float:
    correct = 0
    for images, labels in part.batches(500):
        correct += int((net(images).asnumpy().argmax(axis=1) == labels.asnumpy()).sum())
    # Horovod: every rank has tested its part; add them up.
    totals = hvd.allreduce(mx.nd.array([correct, len(part)]), name="accuracy", op=hvd.Sum)
    return float(totals[0].asscalar() / totals[1].asscalar())


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job.
    hvd.init()
    mx.random.seed(arguments.seed)
    # Horovod: every rank gets its own part of the data.
    train, test = digits.load(hvd.rank(), hvd.size())

    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    # Horovod: start equal on all ranks; shapes are known after the first batch, and that is when.
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    # Horovod: a step uses size() times as many images, so it may be that much longer.
    options = {"learning_rate": arguments.lr * hvd.size(), "momentum": arguments.momentum}
    # Horovod: stay equal by averaging gradients.
    trainer = hvd.DistributedTrainer(
        net.collect_params(),
        "sgd",
        options,
        compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
        gradient_predivide_factor=arguments.gradient_predivide_factor,
    )
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    for epoch in range(1, arguments.epochs + 1):
        losses = []
        for images, labels in train.batches(arguments.batch_size):
            with autograd.record():
                loss = loss_of(net(images), labels)
            loss.backward()
            trainer.step(len(images))
            losses.append(float(loss.mean().asnumpy()))
        correct = accuracy(net, test)
        if hvd.rank() == 0:
            loss_value = sum(losses) / len(losses)
            print(f"epoch {epoch}  loss {loss_value:.4f}  accuracy {correct:.1%}", flush=True)

    # Horovod: one rank saves, or they would overwrite each other's files.
    if arguments.save and hvd.rank() == 0:
        net.save_parameters(arguments.save)


if __name__ == "__main__":
    main()
