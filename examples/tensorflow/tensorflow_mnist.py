"""Trains a convolutional network in the style of TensorFlow 1: a graph and a session.

    horovodrun -np 2 python examples/tensorflow/tensorflow_mnist.py

The lines marked "Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

import horovod.tensorflow as hvd

sys.path.append(str(Path(__file__).parents[1] / "tensorflow2"))
import mnist_data

tf.disable_v2_behavior()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank")
    parser.add_argument("--steps", type=int, default=400, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of one rank")
    parser.add_argument("--use-adasum", action="store_true", help="combine by Adasum")
    parser.add_argument("--checkpoint-dir", type=Path, help="where rank 0 saves the model")
    parser.add_argument(
        "--data",
        type=Path,
        default=mnist_data.INSTALLED,
        help="directory with IDX files; without any, images are generated",
    )
    parser.add_argument("--generated-images", type=int, default=20000, help="if there is no data")
    return parser.parse_args()


def weights(name: str, *shape: int) -> tf.Variable:
    scale = np.sqrt(2 / np.prod(shape[:-1]))
    return tf.get_variable(name, shape, initializer=tf.random_normal_initializer(0, scale))


def network(images: tf.Tensor) -> tf.Tensor:
    """Two convolutions and two linear layers; returns how likely the ten classes are."""
    hidden = images
    for number, shape in enumerate([(5, 5, 1, 16), (5, 5, 16, 32)]):
        hidden = tf.nn.conv2d(hidden, weights(f"conv{number}", *shape), strides=1, padding="SAME")
        hidden = tf.nn.max_pool2d(tf.nn.relu(hidden), 2, 2, "SAME")
    hidden = tf.reshape(hidden, [-1, 7 * 7 * 32])
    hidden = tf.nn.relu(tf.matmul(hidden, weights("dense", 7 * 7 * 32, 64)))
    return tf.matmul(hidden, weights("output", 64, 10))


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job.
    hvd.init()
    images, labels = mnist_data.load(arguments.data, True, arguments.generated_images)
    unseen = mnist_data.load(arguments.data, False, arguments.generated_images // 5)

    image, label = tf.placeholder(tf.float32, [None, 28, 28, 1]), tf.placeholder(tf.int64, [None])
    answers = network(image)
    loss = tf.losses.sparse_softmax_cross_entropy(label, answers)
    correct = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(answers, 1), label), tf.float32))
    # Horovod: a step uses size() times as many images, so it may be that much longer. Adasum finds
    # the right length by itself.
    rate = arguments.lr * (1 if arguments.use_adasum else hvd.size())
    # Horovod: apply the gradients of all ranks.
    optimizer = hvd.DistributedOptimizer(
        tf.train.AdamOptimizer(rate), op=hvd.Adasum if arguments.use_adasum else hvd.Average
    )
    step_number = tf.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=step_number)
    mean_correct = hvd.allreduce(correct)

    # Horovod: start equal on all ranks.
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    # Horovod: one rank saves, or they would overwrite each other's files.
    directory = arguments.checkpoint_dir if hvd.rank() == 0 else None
    random = np.random.default_rng(hvd.rank())
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(directory) if directory else None, hooks=hooks
    ) as session:
        for _ in range(max(1, arguments.steps // hvd.size())):
            # Horovod: every rank draws images of its own.
            chosen = random.integers(0, len(images), arguments.batch_size)
            _, step, now = session.run(
                [train, step_number, loss], {image: images[chosen], label: labels[chosen]}
            )
            if hvd.rank() == 0 and step % 20 == 0:
                print(f"step {step}  loss {now:.4f}", flush=True)
        mine = slice(hvd.rank(), None, hvd.size())
        accuracy = session.run(mean_correct, {image: unseen[0][mine], label: unseen[1][mine]})
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.1%}", flush=True)


if __name__ == "__main__":
    main()
