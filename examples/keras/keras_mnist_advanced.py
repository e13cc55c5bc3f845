"""Trains a convolutional network with Keras on all processes, with all that a long run wants:
warm-up of the learning rate, images that are moved about, a lower rate when progress stalls, and
checkpoints.

    horovodrun -np 4 python examples/keras/keras_mnist_advanced.py

Works with Keras 3 on TensorFlow, PyTorch or JAX (KERAS_BACKEND), and with Keras 2. The lines marked
"Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import horovod.keras as hvd

sys.path.append(str(Path(__file__).parents[1] / "tensorflow2"))
import mnist_data


class Augmented(keras.utils.Sequence):
    """Batches of images that are moved a little differently in every epoch."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, batch_size: int, seed: int) -> None:
        super().__init__()
        self.images, self.labels, self.batch_size = images, labels, batch_size
        self.random = np.random.default_rng(seed)
        self.order = self.random.permutation(len(images))

    def __len__(self) -> int:
        return math.ceil(len(self.images) / self.batch_size)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """A batch, moved by up to two pixels."""
        chosen = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        shifts = self.random.integers(-2, 3, (len(chosen), 2))
        moved = [np.roll(self.images[i], shift, (0, 1)) for i, shift in zip(chosen, shifts)]
        return np.stack(moved), self.labels[chosen]

    def on_epoch_end(self) -> None:
        """Shuffles."""
        self.order = self.random.permutation(len(self.images))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=128, help="images per step and rank")
    parser.add_argument("--lr", type=float, default=1.0, help="learning rate of one rank")
    parser.add_argument("--warmup-epochs", type=int, default=5)
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=Path("checkpoints"),
        help="where rank 0 saves the model after each epoch",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=mnist_data.INSTALLED,
        help="directory with IDX files; without any, images are generated",
    )
    parser.add_argument("--generated-images", type=int, default=12000, help="if there is no data")
    parser.add_argument("--verbose", type=int, default=2, help="what Keras prints: 0, 1 or 2")
    return parser.parse_args()


def create_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Dropout(0.25),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def own_part(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Horovod: every rank gets its own part of the data, all of the same size."""
    count = len(images) // hvd.size() * hvd.size()
    return images[hvd.rank() : count : hvd.size()], labels[hvd.rank() : count : hvd.size()]


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job.
    hvd.init()
    train = mnist_data.load(arguments.data, True, arguments.generated_images)
    test = own_part(*mnist_data.load(arguments.data, False, arguments.generated_images // 5))
    batches = Augmented(*own_part(*train), arguments.batch_size, seed=hvd.rank())

    model = create_model()
    # Horovod: a step uses size() times as many images, so it may be that much longer.
    rate = arguments.lr * hvd.size()
    # Horovod: gradients are averaged over all ranks.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adadelta(rate))
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])

    callbacks = [
        # Horovod: start equal on all ranks.
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        # Horovod: metrics are those of all ranks. Before what looks at metrics.
        hvd.callbacks.MetricAverageCallback(),
        # Horovod: long steps from the start would lead astray, so let them grow.
        hvd.callbacks.LearningRateWarmupCallback(
            rate, warmup_epochs=arguments.warmup_epochs, verbose=1
        ),
        keras.callbacks.ReduceLROnPlateau(verbose=1),
    ]
    # Horovod: one rank saves, or they would overwrite each other's files.
    if hvd.rank() == 0:
        arguments.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        ending = "keras" if hasattr(keras, "ops") else "h5"  # Keras 3, or Keras 2
        path = arguments.checkpoint_dir / f"checkpoint-{{epoch}}.{ending}"
        callbacks.append(keras.callbacks.ModelCheckpoint(str(path)))

    model.fit(
        batches,
        epochs=arguments.epochs,
        validation_data=test,
        callbacks=callbacks,
        # Horovod: one rank prints.
        verbose=arguments.verbose if hvd.rank() == 0 else 0,
    )
    # Horovod: every rank has tested its part, all of the same size.
    loss, accuracy = hvd.allreduce(model.evaluate(*test, verbose=0), name="test")
    print(f"test loss {loss:.6f}  accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
