"""Time of a training step with horovod against tf.distribute.MultiWorkerMirroredStrategy.

    python scripts/bench_tensorflow.py                 # --np, --rounds, --steps

Both train the same models in the same processes: blocks of steps alternate, and the weights of both
are compared at the end. A ratio above 1 means that horovod is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


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
    for name, shapes, forward, inputs in models(tf):
        row = compare(tf, strategy, shapes, forward, inputs, arguments)
        if rank() == 0:
            print(f"| {name} | {row} |", flush=True)


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


def horovod_step(tf: Any, values: list[np.ndarray], forward: Callable, inputs: Any) -> Any:
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
) -> Any:
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


def compare(
    tf: Any,
    strategy: Any,
    shapes: list[tuple[int, ...]],
    forward: Callable,
    inputs: Any,
    arguments: argparse.Namespace,
) -> str:
    """Times of both, in turns, as a row of the table."""
    from horovod.common.basics import rank

    # Ranks have different data.
    inputs = tf.constant(inputs * (1.0 + rank() / 10))
    ours, our_variables = horovod_step(tf, initial(shapes), forward, inputs)
    theirs, their_variables = strategy_step(tf, strategy, initial(shapes), forward, inputs)
    for step in (ours, theirs):
        measure(step, 5)
    rounds = [
        (measure(ours, arguments.steps), measure(theirs, arguments.steps))
        for _ in range(arguments.rounds)
    ]
    for our, their in zip(our_variables, their_variables):
        np.testing.assert_allclose(our.numpy(), their.numpy(), rtol=1e-3, atol=1e-5)
    ratios = [their / our for our, their in rounds]
    medians = [statistics.median(times) * 1e3 for times in zip(*rounds)]
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
