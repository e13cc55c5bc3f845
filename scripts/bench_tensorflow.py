"""Time of a training step with horovod against tf.distribute.MultiWorkerMirroredStrategy.

    python scripts/bench_tensorflow.py                 # --np, --rounds, --steps

Both train the same models in the same processes: blocks of steps alternate, and the weights of both
are compared at the end. A ratio above 1 means that horovod is faster.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

# What is run, and the variables it trains.
Step = tuple[Callable[[], None], list[Any]]


def parse_arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, default=2, help="processes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of each in a round")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Starts the processes, or is one of them."""
    arguments = parse_arguments()
    if arguments.worker:
        work(arguments)
        return
    launcher = Path(sys.executable).parent / "horovodrun"
    command = [str(launcher), "-np", str(arguments.np), sys.executable, __file__, "--worker"]
    command += ["--rounds", str(arguments.rounds), "--steps", str(arguments.steps)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


def work(arguments: argparse.Namespace) -> None:
    """What each process does. The strategy must be there before anything else of TensorFlow."""
    from horovod.common.basics import init, rank
    from horovod.common.objects import allgather_object

    init()
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
        workers = [f"127.0.0.1:{port}" for port in allgather_object(port)]
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank()}}
    )
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    if rank() == 0:
        print(f"TensorFlow {tf.__version__}, {len(workers)} processes, {os.cpu_count()} cores")
        print("| model | horovod | MultiWorkerMirroredStrategy | ratio (lowest - highest round) |")
        print("|---|---|---|---|", flush=True)
    for name, steps in pairs_of_steps(tf, strategy):
        # Its steps are long.
        count = arguments.steps // 4 if "ResNet" in name else arguments.steps
        row = compare(*steps, arguments.rounds, max(1, count))
        if rank() == 0:
            print(f"| {name} | {row} |", flush=True)


def pairs_of_steps(tf: Any, strategy: Any) -> Iterator[tuple[str, tuple[Step, Step]]]:
    """Names of models, and a step of each with horovod and with the strategy."""
    from horovod.common.basics import rank

    for name, shapes, forward, inputs in models(tf):
        # Ranks have different data.
        inputs = tf.constant(inputs * (1.0 + rank() / 10))
        ours = horovod_step(tf, initial(shapes), forward, inputs)
        yield name, (ours, strategy_step(tf, strategy, initial(shapes), forward, inputs))
    for name, size, batch in (("small", 96, 16), ("ResNet50", 64, 4)):
        title = f"synthetic benchmark, {name}, {batch} images of {size}"
        ours = synthetic_step(tf, name, size, batch, None)
        yield title, (ours, synthetic_step(tf, name, size, batch, strategy))


def models(tf: Any) -> list[tuple[str, list[tuple[int, ...]], Callable, Any]]:
    """Names, shapes of variables, what a model computes from them, and its input."""

    def dense(variables: list[Any], x: Any) -> Any:
        for weight in variables:
            x = tf.tanh(tf.matmul(x, weight))
        return x

    def convolutional(variables: list[Any], x: Any) -> Any:
        for kernel in variables:
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "SAME"))
        return tf.reduce_mean(x, [1, 2])

    widths = [3, 32, 64, 128]
    kernels = [(3, 3, *pair) for pair in zip(widths, widths[1:])]
    return [
        ("4 layers of 1024", [(1024, 1024)] * 4, dense, np.ones((8, 1024), "float32")),
        ("100 layers of 64", [(64, 64)] * 100, dense, np.ones((8, 64), "float32")),
        ("convolutions", kernels, convolutional, np.ones((8, 32, 32, 3), "float32")),
    ]


def initial(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Weights to begin with, the same on all ranks."""
    random = np.random.default_rng(0)
    return [
        random.normal(0, np.prod(shape[:-1]) ** -0.5, shape).astype("float32") for shape in shapes
    ]


def horovod_step(tf: Any, values: list[np.ndarray], forward: Callable, inputs: Any) -> Step:
    """A step with horovod, and its variables."""
    import horovod.tensorflow as hvd

    variables = [tf.Variable(value) for value in values]

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(variables, inputs) ** 2)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(0.01 * gradient)

    return step, variables


def strategy_step(
    tf: Any, strategy: Any, values: list[np.ndarray], forward: Callable, inputs: Any
) -> Step:
    """A step with the strategy, and its variables."""
    with strategy.scope():
        variables = [tf.Variable(value) for value in values]

    def apply(strategy: Any, gradients: list[Any]) -> None:
        for variable, gradient in zip(variables, gradients):
            strategy.extended.update(
                variable, lambda v, g: v.assign_sub(0.01 * g), args=(gradient,), group=False
            )

    def replica() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(variables, inputs) ** 2)
        gradients = tape.gradient(loss, variables)
        context = tf.distribute.get_replica_context()
        reduced = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        context.merge_call(apply, args=(reduced,))

    @tf.function
    def step() -> None:
        strategy.run(replica)

    return step, variables


def synthetic_step(tf: Any, name: str, size: int, batch: int, strategy: Any | None) -> Step:
    """A step of the synthetic benchmark's example, and the variables it trains."""
    import horovod.tensorflow as hvd

    folder = Path(__file__).parents[1] / "examples" / "tensorflow2"
    sys.path.insert(0, str(folder))
    from tensorflow2_synthetic_benchmark import create_model

    images = tf.random.stateless_uniform([batch, size, size, 3], [1, hvd.rank()])
    labels = tf.constant(np.arange(batch) + hvd.rank())
    tf.keras.utils.set_random_seed(1)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = create_model(name, size)
        optimizer = tf.keras.optimizers.SGD(0.01)
        optimizer.build(model.trainable_variables)
    # The strategy's optimizer adds up, horovod's tape averages.
    share = 1 / hvd.size() if strategy else 1.0

    def train() -> None:
        with tf.GradientTape() as tape:
            answers = model(images, training=True)
            losses = tf.keras.losses.sparse_categorical_crossentropy(labels, answers)
            loss = tf.reduce_mean(losses) * share
        if not strategy:
            tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    step = tf.function(lambda: strategy.run(train)) if strategy else tf.function(train)
    return step, model.trainable_variables


def compare(our_step: Step, their_step: Step, rounds: int, count: int) -> str:
    """Times of both, in turns, as a row of the table."""
    (ours, our_variables), (theirs, their_variables) = our_step, their_step
    for step in (ours, theirs):
        measure(step, 5)
    times = [(measure(ours, count), measure(theirs, count)) for _ in range(rounds)]
    for our, their in zip(our_variables, their_variables):
        np.testing.assert_allclose(our.numpy(), their.numpy(), rtol=1e-2, atol=1e-4)
    ratios = [their / our for our, their in times]
    medians = [statistics.median(each) * 1e3 for each in zip(*times)]
    return (
        f"{medians[0]:.2f} ms | {medians[1]:.2f} ms | "
        f"**{statistics.median(ratios):.2f}x** ({min(ratios):.2f} - {max(ratios):.2f})"
    )


def measure(step: Callable[[], None], count: int) -> float:
    """Seconds per step."""
    from horovod.common import collectives
    from horovod.common.process_sets import global_process_set

    collectives.barrier(global_process_set)
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    main()
