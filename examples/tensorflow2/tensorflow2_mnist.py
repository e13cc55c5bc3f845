"""Trains a convolutional network with TensorFlow 2 in a loop of one's own.

    horovodrun -np 2 python examples/tensorflow2/tensorflow2_mnist.py

The lines marked "Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mnist_data
import tensorflow as tf

import horovod.tensorflow as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank")
    parser.add_argument("--steps", type=int, default=400, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of one rank")
    parser.add_argument("--log-interval", type=int, default=10, help="steps between lines")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
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


def create_model() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job.
    hvd.init()
    # Horovod: every rank gets its own part of the data.
    images, labels = mnist_data.load(arguments.data, True, arguments.generated_images)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shard(hvd.size(), hvd.rank())
    data = data.shuffle(10000, seed=hvd.rank()).repeat().batch(arguments.batch_size)

    model = create_model()
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Horovod: a step uses size() times as many images, so it may be that much longer. Adasum finds
    # the right length by itself.
    optimizer = tf.keras.optimizers.Adam(arguments.lr * (1 if arguments.use_adasum else hvd.size()))
    optimizer.build(model.trainable_variables)

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        # Horovod: gradients are those of all ranks.
        tape = hvd.DistributedGradientTape(
            tape,
            compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
            op=hvd.Adasum if arguments.use_adasum else hvd.Average,
        )
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    # Horovod: start equal on all ranks.
    hvd.broadcast_variables(model.variables, root_rank=0)
    steps = max(1, arguments.steps // hvd.size())
    for step, (batch, classes) in enumerate(data.take(steps), start=1):
        loss = train_step(batch, classes)
        if hvd.rank() == 0 and step % arguments.log_interval == 0:
            print(f"step {step}/{steps}  loss {float(loss):.4f}", flush=True)

    accuracy = test(model, arguments)
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.1%}", flush=True)
        # Horovod: one rank saves, or they would overwrite each other's files.
        if arguments.checkpoint_dir:
            tf.train.Checkpoint(model=model).save(str(arguments.checkpoint_dir / "model"))


def test(model: tf.keras.Model, arguments: argparse.Namespace) -> float:
    """The part of unseen images that is recognized; each rank tests its part of them."""
    images, labels = mnist_data.load(arguments.data, False, arguments.generated_images // 5)
    images, labels = images[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()]
    correct = 0
    for start in range(0, len(images), 500):
        answers = tf.argmax(model(images[start : start + 500], training=False), axis=1)
        correct += int(tf.reduce_sum(tf.cast(answers == labels[start : start + 500], tf.int32)))
    totals = hvd.allreduce(tf.constant([correct, len(images)], tf.float64), op=hvd.Sum)
    return float(totals[0] / totals[1])


if __name__ == "__main__":
    main()
