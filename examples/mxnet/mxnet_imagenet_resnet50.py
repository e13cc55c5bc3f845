"""Trains ResNet-50, or another network of Gluon's model zoo, with warm-up and checkpoints.

    horovodrun -np 4 python examples/mxnet/mxnet_imagenet_resnet50.py --rec-train train.rec \\
        --rec-train-idx train.idx --batch-size 64

reads ImageNet from files that MXNet's `im2rec` has made. Without them it trains on the digits in
`examples/data`. The lines marked "Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import digits
import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon.model_zoo import vision

import horovod.mxnet as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rec-train", help="file of images; without one, digits are used")
    parser.add_argument("--rec-train-idx", default="", help="index of that file")
    parser.add_argument("--model", default="resnet50_v1", help="of Gluon's model zoo")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--num-classes", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and rank")
    parser.add_argument("--num-epochs", type=int, default=90)
    parser.add_argument("--steps-per-epoch", type=int, help="stop an epoch early")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate of one rank")
    parser.add_argument("--warmup-epochs", type=int, default=5)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--wd", type=float, default=0.0001, help="weight decay")
    parser.add_argument("--num-groups", type=int, default=0, help="of gradients that go together")
    parser.add_argument("--save-frequency", type=int, default=0, help="epochs between checkpoints")
    parser.add_argument("--save-dir", default=".")
    return parser.parse_args()


class Data:
    """A rank's batches."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.batch_size, self.digits = arguments.batch_size, None
        if not arguments.rec_train:
            # Horovod: every rank gets its own part of the data.
            self.digits = digits.load(hvd.rank(), hvd.size(), arguments.image_size, 3)[0]
            return
        self.records = mx.io.ImageRecordIter(
            path_imgrec=arguments.rec_train,
            path_imgidx=arguments.rec_train_idx,
            data_shape=(3, arguments.image_size, arguments.image_size),
            batch_size=arguments.batch_size,
            shuffle=True,
            rand_mirror=True,
            # Horovod: every rank gets its own part of the data.
            num_parts=hvd.size(),
            part_index=hvd.rank(),
        )

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """The batches of one epoch."""
        if self.digits is not None:
            yield from self.digits.batches(self.batch_size)
            return
        self.records.reset()
        for batch in self.records:
            yield batch.data[0], batch.label[0]


def learning_rate(arguments: argparse.Namespace, epoch: int) -> float:
    """From the rate of one rank up to that of all, then ten times less at 30, 60 and 80 epochs."""
    # Horovod: a step uses size() times as many images, so it may be that much longer.
    rate = arguments.lr * hvd.size()
    if epoch < arguments.warmup_epochs:
        return arguments.lr + (rate - arguments.lr) * epoch / arguments.warmup_epochs
    return rate * 0.1 ** sum(epoch >= limit for limit in (30, 60, 80))


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job.
    hvd.init()
    data = Data(arguments)
    net = vision.get_model(arguments.model, classes=arguments.num_classes)
    net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    net.hybridize()
    # Horovod: start equal on all ranks, and stay equal by averaging gradients.
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(
        net.collect_params(),
        "sgd",
        {"momentum": arguments.momentum, "wd": arguments.wd},
        num_groups=arguments.num_groups,
    )
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(arguments.num_epochs):
        trainer.set_learning_rate(learning_rate(arguments, epoch))
        start, images_seen, total, steps = time.monotonic(), 0, 0.0, 0
        for images, labels in data.batches():
            with autograd.record():
                loss = loss_of(net(images), labels)
            loss.backward()
            trainer.step(len(images))
            total += float(loss.mean().asnumpy())
            images_seen += len(images)
            steps += 1
            if steps == arguments.steps_per_epoch:
                break
        # Horovod: the loss of all ranks.
        loss_value = hvd.allreduce(mx.nd.array([total / max(1, steps)]), name="loss").asscalar()
        speed = images_seen * hvd.size() / (time.monotonic() - start)
        if hvd.rank() == 0:
            print(f"epoch {epoch}  loss {loss_value:.4f}  {speed:.1f} images/s", flush=True)
        # Horovod: one rank saves, or they would overwrite each other's files.
        is_due = arguments.save_frequency and (epoch + 1) % arguments.save_frequency == 0
        if is_due and hvd.rank() == 0:
            net.save_parameters(f"{arguments.save_dir}/{arguments.model}-{epoch:04}.params")


if __name__ == "__main__":
    main()
