"""Measures how many images per second a model trains with, on images made of noise.

horovodrun -np 2 python examples/tensorflow2/tensorflow2_synthetic_benchmark.py --model small
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="ResNet50", help="of keras.applications; or small")
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and rank")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10, help="measurements")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    return parser.parse_args()


def create_model(name: str, image_size: int) -> tf.keras.Model:
    if name != "small":
        shape = (image_size, image_size, 3)
        return getattr(tf.keras.applications, name)(weights=None, input_shape=shape)
    convolutions = [
        tf.keras.layers.Conv2D(width, 3, strides=2, activation="relu") for width in (16, 32, 64)
    ]
    return tf.keras.Sequential(
        [
            tf.keras.Input((image_size, image_size, 3)),
            *convolutions,
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(1000, activation="softmax"),
        ]
    )


def log(text: str) -> None:
    if hvd.rank() == 0:
        print(text, flush=True)


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    # Horovod: the processes of a host share its cores.
    threads = max(1, (os.cpu_count() or 1) // hvd.local_size())
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    model = create_model(arguments.model, arguments.image_size)
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    compression = hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none

    size = arguments.image_size
    images = tf.random.uniform([arguments.batch_size, size, size, 3])
    labels = tf.random.uniform([arguments.batch_size], maxval=1000, dtype=tf.int64)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            answers = model(images, training=True)
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, answers))
        # Horovod: gradients are those of all ranks.
        tape = hvd.DistributedGradientTape(tape, compression=compression)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    def seconds(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            step()
        return time.perf_counter() - start

    log(f"Model: {arguments.model}\nBatch size: {arguments.batch_size}")
    log(f"Number of CPUs: {hvd.size()}")
    # Horovod: start equal on all ranks.
    hvd.broadcast_variables(model.variables, root_rank=0)
    seconds(arguments.num_warmup_batches)
    rates = []
    for number in range(arguments.num_iters):
        batches = arguments.num_batches_per_iter
        rates.append(arguments.batch_size * batches / seconds(batches))
        log(f"Iter #{number}: {rates[-1]:.1f} img/sec per CPU")

    # Every rank has measured its own speed.
    everyones = np.array(hvd.allgather_object(rates))
    mean, spread = everyones.mean(), 1.96 * everyones.std()
    total, total_spread = everyones.sum(0).mean(), 1.96 * everyones.sum(0).std()
    log(f"Img/sec per CPU: {mean:.1f} +-{spread:.1f}")
    log(f"Total img/sec on {hvd.size()} CPU(s): {total:.1f} +-{total_spread:.1f}")


if __name__ == "__main__":
    main()
