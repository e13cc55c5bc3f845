"""Whole jobs with JAX: several devices in a process, a rank that dies, forks, an early end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

HEAD = """
import os, sys, time
import jax, jax.numpy as jnp, numpy as np
import horovod.jax as hvd
"""


def start(program: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2"]
    return subprocess.Popen(
        [*command, sys.executable, "-c", HEAD + program],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(program: str, **variables: str) -> str:
    job = start(program, **variables)
    output, _ = job.communicate(timeout=100)
    assert job.returncode == 0, output
    return output


DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}

SPREAD = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec
hvd.init()
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
values = np.arange(16.0, dtype=np.float32).reshape(4, 4) + hvd.rank()
for spec in (PartitionSpec("x", "y"), PartitionSpec("x"), PartitionSpec()):
    array = jax.device_put(values, NamedSharding(mesh, spec))
    tree = hvd.allreduce({"array": array, "plain": jnp.ones(3)}, op=hvd.Sum)
    assert tree["array"].sharding == array.sharding
    np.testing.assert_array_equal(tree["array"], 2 * np.arange(16.0).reshape(4, 4) + 1)
    np.testing.assert_array_equal(hvd.broadcast(array, 1), np.arange(16.0).reshape(4, 4) + 1)
array = jax.device_put(values, NamedSharding(mesh, PartitionSpec("x")))
for call in (hvd.allgather, jax.jit(hvd.allreduce)):
    try:
        call(array)
    except NotImplementedError as error:
        print(f"{hvd.rank()} refused: {error}")
one = jax.device_put(values, jax.devices()[2])
assert jax.jit(hvd.allreduce)(one).devices() == hvd.allreduce(one).devices() == {jax.devices()[2]}
"""


def test_arrays_on_several_devices_are_reduced_shard_by_shard() -> None:
    output = run(SPREAD, **DEVICES)
    assert output.count("put it on one device first") == 2, output
    assert output.count("4 devices of one process") == 2, output
    assert output.count("Call it outside of jit") == 2, output


LOOP = """
hvd.init()
step = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum) / hvd.size())
array = jnp.ones(1000)
for number in range(10**9):
    try:
        array = step(array)
        array.block_until_ready()
    except Exception as error:
        assert "HorovodInternalError" in str(error), error
        print(f"survivor {hvd.rank()}: {error}", flush=True)
        sys.exit(3)
    if number == 3:
        print(f"ready {hvd.rank()} {os.getpid()}", flush=True)
"""


def test_a_rank_dies_while_programs_reduce() -> None:
    job = start(LOOP)
    assert job.stdout is not None
    ranks: dict[int, int] = {}
    while len(ranks) < 2:
        line = job.stdout.readline()
        assert line, "the job has ended"
        if ready := re.search(r"ready (\d) (\d+)", line):
            ranks[int(ready[1])] = int(ready[2])
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.monotonic()
    output, _ = job.communicate(timeout=30)
    assert time.monotonic() - killed < 20
    assert job.returncode != 0
    assert re.search(r"survivor 0: .*rank 1 on host", output), output


LATE = """
hvd.init()
step = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum))
for seconds in (0.0, 0.3, 0.002, 0.0):
    if hvd.rank() == 1:
        time.sleep(seconds)
    assert float(step(jnp.float32(2))) == 4
step(jnp.float32(2))  # And leaves without looking at the result.
"""


def test_ranks_that_come_late() -> None:
    run(LATE)


FORK = """
hvd.init()
step = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum))
assert float(step(jnp.float32(2))) == 4
child = os.fork()
if child == 0:
    try:
        hvd.allreduce(np.ones(3))
    except BaseException as error:
        print(f"child: {error}", flush=True)
    os._exit(0)
os.waitpid(child, 0)
assert float(step(jnp.float32(2))) == 4
"""


def test_after_a_fork() -> None:
    output = run(FORK, PYTHONWARNINGS="ignore")
    assert output.count("child: ") == 2, output
    assert output.count("was forked from a rank") == 2, output


def test_before_init() -> None:
    output = run("""
try:
    jax.jit(hvd.allreduce)(jnp.ones(3))
except RuntimeError as error:
    print(f"said: {error}")
""")
    assert output.count("hvd.init()") == 2, output
