"""Trains a convolutional network with `tf.keras` and every process taking part.

    horovodrun -np 2 python examples/tensorflow2/tensorflow2_keras_mnist.py

The lines marked "Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import mnist_data
import tensorflow as tf

import horovod.tensorflow.keras as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400, help="of an epoch, all ranks together")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of one rank")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--checkpoint-dir", type=Path, help="where rank 0 saves after each epoch")
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
            tf.keras.layers.Dropout(0.25),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dropout(0.5),
            tf.keras.layers.Dense(10, activation="softmax"),
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
    # Horovod: a step uses size() times as many images, so it may be that much longer.
    rate = arguments.lr * hvd.size()
    # Horovod: gradients are averaged over all ranks.
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.Adam(rate),
        compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
    )
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])

    callbacks = [
        # Horovod: start equal on all ranks.
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        # Horovod: metrics are those of all ranks.
        hvd.callbacks.MetricAverageCallback(),
        # Horovod: long steps from the start would lead astray, so let them grow.
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=3, verbose=1),
    ]
    # Horovod: one rank saves, or they would overwrite each other's files.
    if hvd.rank() == 0 and arguments.checkpoint_dir:
        arguments.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        ending = "keras" if hasattr(tf.keras, "ops") else "h5"  # Keras 3, or Keras 2
        path = arguments.checkpoint_dir / f"checkpoint-{{epoch}}.{ending}"
        callbacks.append(tf.keras.callbacks.ModelCheckpoint(str(path)))

    history = model.fit(
        data,
        steps_per_epoch=max(1, arguments.steps // hvd.size()),
        epochs=arguments.epochs,
        callbacks=callbacks,
        # Horovod: one rank prints.
        verbose=2 if hvd.rank() == 0 else 0,
    )
    if hvd.rank() == 0:
        final = {name: values[-1] for name, values in history.history.items()}
        print(f"loss {final['loss']:.4f}  accuracy {final['accuracy']:.1%}", flush=True)


if __name__ == "__main__":
    main()
