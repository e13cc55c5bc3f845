"""Broadcast with TensorFlow: tensors, variables, objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import MOVED, Run, assert_same, gradient_of, mine, run

import horovod.tensorflow as hvd

__all__ = ["run"]

v1 = tf.compat.v1


def test_from_each_root_in_each_type(run: Run) -> None:
    for root in range(hvd.size()):
        for dtype in MOVED:
            result = run(lambda t, root=root: hvd.broadcast(t, root), mine((5, 2), dtype))
            assert_same(result, mine((5, 2), dtype, root).astype("float64"))


def test_the_input_is_left_alone() -> None:
    tensor = tf.constant(mine((5,)))
    hvd.broadcast(tensor, 0)
    assert_same(tensor, mine((5,)))


@pytest.mark.parametrize("inplace", [False, True])
def test_variables(inplace: bool) -> None:
    root = hvd.size() - 1
    variables = [tf.Variable(mine(shape)) for shape in ((3,), (), (2, 2))]
    variables.append(tf.Variable(hvd.rank() % 2 == 0))
    hvd.broadcast_variables(variables, root, inplace=inplace)
    for variable, shape in zip(variables, ((3,), (), (2, 2))):
        assert_same(variable, mine(shape, rank=root))
    assert variables[3].numpy() == (root % 2 == 0)


def test_variables_in_a_function() -> None:
    variable = tf.Variable(mine((3,)))

    @tf.function
    def synchronize() -> None:
        hvd.broadcast_variables([variable], 0)

    synchronize()
    assert_same(variable, mine((3,), rank=0))


@pytest.mark.parametrize("resources", [False, True], ids=["references", "resources"])
def test_variables_in_place(resources: bool) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [
            v1.get_variable(f"v{n}", initializer=mine((n + 1,)), use_resource=resources)
            for n in range(3)
        ]
        values = hvd.broadcast_(variables, 0)
        session.run(v1.global_variables_initializer())
        received = session.run(values)
        for number, (value, variable) in enumerate(zip(received, session.run(variables))):
            assert_same(value, mine((number + 1,), rank=0))
            assert_same(variable, value)


def test_variables_of_two_kinds_are_refused() -> None:
    with tf.Graph().as_default():
        kinds = [v1.get_variable(f"v{r}", [1], use_resource=r) for r in (False, True)]
        with pytest.raises(ValueError, match="reference variables"):
            hvd.broadcast_(kinds, 0)


def test_gradient_is_one_on_the_root_and_zero_elsewhere() -> None:
    for root in range(hvd.size()):

        def spread(tensor: Any, root: int = root) -> Any:
            return hvd.broadcast(tensor, root)

        for function in (spread, tf.function(spread)):
            (gradient,) = gradient_of(function, mine((4,)))
            assert_same(gradient, np.full(4, hvd.rank() == root))


@pytest.mark.usefixtures("several_ranks")
def test_ranks_that_disagree(run: Run) -> None:
    rank = hvd.rank()
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(lambda tensor: hvd.broadcast(tensor, 0), mine((2 + rank,)))
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(lambda tensor: hvd.broadcast(tensor, 0), mine((2,), "int32" if rank else "int64"))
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(lambda tensor: hvd.broadcast(tensor, rank), mine((2,)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="root rank"):
        run(lambda tensor: hvd.broadcast(tensor, hvd.size()), mine((2,)))


def test_global_variables_are_for_graphs() -> None:
    with pytest.raises(RuntimeError, match="does not work eagerly"):
        hvd.broadcast_global_variables(0)


def test_global_variables_of_a_graph() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [v1.get_variable(f"v{n}", initializer=mine((n + 1,))) for n in range(4)]
        synchronize = hvd.broadcast_global_variables(0)
        session.run(v1.global_variables_initializer())
        session.run(synchronize)
        for number, value in enumerate(session.run(variables)):
            assert_same(value, mine((number + 1,), rank=0))


def test_hook_of_a_monitored_session() -> None:
    hook = hvd.BroadcastGlobalVariablesHook(0)
    for _ in range(2):
        with tf.Graph().as_default():
            variable = v1.get_variable("v", initializer=mine((3,)))
            v1.train.get_or_create_global_step()
            with v1.train.SingularMonitoredSession(hooks=[hook]) as session:
                assert_same(session.run(variable), mine((3,), rank=0))


def test_objects() -> None:
    mine_here = {"rank": hvd.rank(), "list": [1, 2.5, None]}
    root = hvd.size() - 1
    assert hvd.broadcast_object(mine_here, root) == {"rank": root, "list": [1, 2.5, None]}
    again = hvd.broadcast_object_fn(root_rank=0)
    for step in range(2):
        assert again((hvd.rank(), step)) == (0, step)
    everyones = hvd.allgather_object({hvd.rank(): "x" * hvd.rank()})
    assert everyones == [{rank: "x" * rank} for rank in range(hvd.size())]


def test_objects_in_graph_mode() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        assert hvd.broadcast_object(hvd.rank(), 0, session=session) == 0
        assert hvd.allgather_object(hvd.rank(), session=session) == list(range(hvd.size()))
