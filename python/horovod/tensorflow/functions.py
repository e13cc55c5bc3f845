"""Variables and Python objects between ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from horovod.common import objects
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.mpi_ops import allgather, broadcast, broadcast_, rank, size  # noqa: F401
from horovod.tensorflow.util import _cache as _cache
from horovod.tensorflow.util import _executing_eagerly as _executing_eagerly
from horovod.tensorflow.util import _make_subgraph as _make_subgraph


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Overwrites variables with the root's; in a graph, returns the operation that does.

    `inplace` is accepted for compatibility: values always travel to the variables' memory by way of
    an assignment.
    """
    variables = list(variables)
    if tf.executing_eagerly():

        def assign_all() -> None:
            mpi_ops.broadcast_(variables, root_rank, process_set=process_set)

        # In one function, or each would wait for the one before.
        tf.function(assign_all, autograph=False, jit_compile=False)()
        return None
    return tf.group(*mpi_ops.broadcast_(variables, root_rank, process_set=process_set))


def broadcast_global_variables(root_rank: int) -> Any:
    """An operation that overwrites all variables of the graph with the root's."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() does not work eagerly, where there are no global "
            "variables; call hvd.broadcast_variables(<variables>, root_rank)"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Overwrites all variables with the root's when a session begins."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Makes the operation, in the graph there is now."""
        if self.bcast_op is None or self.bcast_op.graph != tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the operation."""
        session.run(self.bcast_op)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the root's object on every rank. No session is needed, also not in graph mode."""
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """A function that returns the root's object, for use over and over."""

    def broadcast_it(obj: Any) -> Any:
        return broadcast_object(obj, root_rank, session, name, process_set)

    return broadcast_it


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Returns the objects of all ranks, by rank."""
    return objects.allgather_object(obj, name, process_set)
