"""One rank of scripts/bench_jax.py: times collectives and training steps with one of the peers.

Rank 0 prints lines `RESULT {"what": ..., "us": ..., "low": ..., "check": ...}`. What is timed is
compiled by `jax.jit`; each call is waited for before the next one.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from functools import partial

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from workloads import label

# Bytes, and how often they are sent in a round.
SIZES = {4: 1500, 1024: 1500, 65536: 700, 1 << 20: 150, 4 << 20: 50, 16 << 20: 20, 64 << 20: 8}
STEPS = 30


class Horovod:
    """`horovod.jax`, started by `horovodrun`."""

    def __init__(self):
        import horovod.jax as hvd

        hvd.init()
        self.hvd, self.rank, self.size = hvd, hvd.rank(), hvd.size()

    def compile(self, function, arguments):
        """A function of this rank's arguments, whose results all ranks have."""
        return jax.jit(function), arguments

    def total(self, array):
        """The sum over all ranks."""
        return self.hvd.allreduce(array, op=self.hvd.Sum)

    def average(self, tree):
        """The average of every array of a tree, as one collective."""
        return self.hvd.allreduce(tree)


class Mpi4jax(Horovod):
    """`mpi4jax`, started by `mpirun`."""

    def __init__(self):
        import mpi4jax
        from mpi4py import MPI

        self.communicator = MPI.COMM_WORLD
        self.call = partial(mpi4jax.allreduce, op=MPI.SUM, comm=self.communicator)
        self.rank, self.size = self.communicator.Get_rank(), self.communicator.Get_size()

    def total(self, array):
        """The sum over all ranks."""
        return self.call(array)

    def average(self, tree):
        """It has no collective of several arrays: they are joined to one."""
        flat, restore = jax.flatten_util.ravel_pytree(tree)
        return restore(self.call(flat) / self.size)


class Distributed(Horovod):
    """`psum` of a program for the devices of all processes, with JAX's own gloo collectives."""

    def __init__(self):
        self.rank, self.size = int(os.environ["BENCH_RANK"]), int(os.environ["BENCH_SIZE"])
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        address = f"127.0.0.1:{os.environ['BENCH_PORT']}"
        jax.distributed.initialize(address, self.size, self.rank)
        self.mesh = jax.sharding.Mesh(np.array(jax.devices()), ("ranks",))

    def compile(self, function, arguments):
        """Each process gives its part of arrays that are spread over all of them."""
        part = jax.sharding.PartitionSpec("ranks")
        sharding = jax.sharding.NamedSharding(self.mesh, part)

        def spread(mine):
            mine = jnp.asarray(mine)[None]
            shape = (self.size, *mine.shape[1:])
            return jax.make_array_from_process_local_data(sharding, np.asarray(mine), shape)

        def program(*parts):
            results = function(*jax.tree.map(lambda it: it[0], parts))
            return jax.tree.map(lambda it: it[None], results)

        mapped = jax.shard_map(program, mesh=self.mesh, in_specs=part, out_specs=part)
        return jax.jit(mapped), jax.tree.map(spread, arguments)

    def total(self, array):
        """The sum over all ranks."""
        return jax.lax.psum(array, "ranks")

    def average(self, tree):
        """XLA joins the arrays as it sees fit."""
        return jax.lax.pmean(tree, "ranks")


PEERS = {"horovod": Horovod, "distributed": Distributed, "mpi4jax": Mpi4jax}


def report(peer, what, seconds, check):
    """Tells the driver the times of a call, the median and the lowest tenth, and what came out."""
    if peer.rank == 0:
        middle, low = statistics.median(seconds), sorted(seconds)[len(seconds) // 10]
        line = {"what": what, "us": 1e6 * middle, "low": 1e6 * low, "check": float(check)}
        print("RESULT", json.dumps(line), flush=True)


def timed(call, count):
    """The seconds of each call, and the last result. The first calls do not count."""
    times, result = [], None
    for _ in range(count + 3):
        start = time.perf_counter()
        result = jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return times[3:], result


def local(result):
    """This process's part of a result, as an array of NumPy."""
    return np.asarray(result.addressable_shards[0].data)


def reductions(peer, scale):
    """Sums of arrays of several sizes."""
    for size, count in SIZES.items():
        array = jnp.full(size // 4, peer.rank + 1, jnp.float32)
        program, arguments = peer.compile(peer.total, (array,))
        seconds, result = timed(partial(program, *arguments), max(3, int(count * scale)))
        report(peer, label(size), seconds, local(result).ravel()[-1])


def models():
    """What is trained, with the shape of a rank's batch."""
    from flax import linen as nn

    class Block(nn.Module):
        width: int
        stride: int

        @nn.compact
        def __call__(self, x):
            stride = (self.stride, self.stride)
            y = nn.Conv(self.width, (3, 3), stride)(x)
            y = nn.relu(nn.GroupNorm(8)(y))
            y = nn.GroupNorm(8)(nn.Conv(self.width, (3, 3))(y))
            return nn.relu(y + nn.Conv(self.width, (1, 1), stride)(x))

    blocks = [Block(width, stride) for width in (16, 32, 64) for stride in (2, 1)]
    pool = [lambda x: x.mean((1, 2)), nn.Dense(10)]
    layers = [layer for _ in range(4) for layer in (nn.Dense(1024), nn.relu)]
    return {
        "MLP, 4 layers of 1024": (nn.Sequential(layers), (16, 1024)),
        "ResNet, 6 blocks": (nn.Sequential([nn.Conv(16, (3, 3)), *blocks, *pool]), (8, 32, 32, 3)),
    }


def steps(peer, scale):
    """Training steps, each with one average of all gradients."""
    import optax

    for name, (model, shape) in models().items():
        batch = jax.random.normal(jax.random.PRNGKey(peer.rank), shape)
        parameters = model.init(jax.random.PRNGKey(7), batch)
        optimizer = optax.sgd(0.01, momentum=0.9)

        def step(parameters, state, batch, model=model, optimizer=optimizer):
            loss = lambda it: jnp.square(model.apply(it, batch)).mean()  # noqa: E731
            gradients = peer.average(jax.grad(loss)(parameters))
            updates, state = optimizer.update(gradients, state, parameters)
            return optax.apply_updates(parameters, updates), state

        arguments = (parameters, optimizer.init(parameters), batch)
        program, (*state, batch) = peer.compile(step, arguments)
        holder = [tuple(state)]

        def once(program=program, holder=holder, batch=batch):
            holder[0] = program(*holder[0], batch)
            return holder[0]

        seconds, (trained, _) = timed(once, max(3, int(STEPS * scale)))
        check = sum(np.abs(local(leaf)).sum(dtype="f8") for leaf in jax.tree.leaves(trained))
        report(peer, name, seconds, check)


def main():
    """`jax_worker.py PEER SCALE WHAT...`"""
    peer = PEERS[sys.argv[1]]()
    for what in sys.argv[3:]:
        {"reductions": reductions, "steps": steps}[what](peer, float(sys.argv[2]))


if __name__ == "__main__":
    main()
