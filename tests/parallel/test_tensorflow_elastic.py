"""Elastic states of TensorFlow, eagerly and in a session, and how lost ranks are recognized."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import Run, run  # noqa: F401

import horovod.tensorflow as hvd
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.tensorflow.elastic import TensorFlowKerasState, TensorFlowState


class Case:
    """A state with two variables, and a way to look at and to change them."""

    def __init__(self, state: Any, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self.state = state
        self.read = read
        self.write = write


def numbers() -> list[Any]:
    return [np.full((2, 3), 1.0 + hvd.rank(), "float32"), np.array(10 + hvd.rank())]


def eager_case() -> Iterator[Case]:
    variables = [tf.Variable(number) for number in numbers()]

    def write(offset: Any) -> None:
        for variable in variables:
            variable.assign(variable + tf.cast(offset, variable.dtype))

    state = TensorFlowState(variables, epoch=hvd.rank())
    yield Case(state, lambda: [each.numpy().tolist() for each in variables], write)


def session_case() -> Iterator[Case]:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        variables = [
            tf.compat.v1.get_variable(f"v{i}", None, None, n)
            for i, n in enumerate(map(tf.constant, numbers()))
        ]
        offset = tf.compat.v1.placeholder(tf.float32, [])
        add = tf.group(
            *(each.assign(each + tf.cast(offset, each.dtype.base_dtype)) for each in variables)
        )
        session.run(tf.compat.v1.global_variables_initializer())
        state = TensorFlowState(session=session, epoch=hvd.rank())
        graph.finalize()
        yield Case(
            state,
            lambda: [each.tolist() for each in session.run(variables)],
            lambda value: session.run(add, {offset: value}),
        )


@pytest.fixture(params=[eager_case, session_case], ids=["eager", "session"])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    yield from request.param()


def test_sync_makes_everything_rank_0s_every_time(case: Case) -> None:
    for offset in (0, 5):
        case.write(offset * (1 + hvd.rank()))
        case.state.epoch = offset + hvd.rank()
        expected = hvd.broadcast_object(case.read())
        case.state.sync()
        assert case.read() == expected == [[[1.0 + offset] * 3] * 2, 10 + offset]
        assert case.state.epoch == offset


def test_restore_and_commit(case: Case) -> None:
    before = case.read()
    case.write(1)
    case.state.restore()
    assert case.read() == before
    case.write(2)
    case.state.epoch = 7
    case.state.commit()
    committed = case.read()
    assert committed != before
    for _ in range(2):
        case.write(3)
        case.state.epoch = 8
        case.state.restore()
        assert case.read() == committed and case.state.epoch == 7


def test_variables_or_a_session_must_be_given() -> None:
    with pytest.raises(ValueError, match="needs variables"):
        TensorFlowState(epoch=1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="needs session"):
        TensorFlowState(epoch=1)
    state = TensorFlowState([], epoch=hvd.rank())
    state.sync()
    assert state.epoch == 0


def test_a_session_may_be_the_default_one() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session().as_default() as session:
        variable = tf.compat.v1.get_variable("v", [], tf.float32, tf.zeros_initializer())
        session.run(tf.compat.v1.global_variables_initializer())
        state = TensorFlowState()
        session.run(variable.assign_add(1.0 + hvd.rank()))
        state.sync()
        assert session.run(variable) == 1.0
        session.close()


def test_a_keras_model() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    with pytest.raises(ValueError, match="build it"):
        TensorFlowKerasState(model, optimizer)
    model.build((None, 3))
    model.set_weights([np.full_like(each, 1 + hvd.rank()) for each in model.get_weights()])
    state = TensorFlowKerasState(model, optimizer, backend=tf.keras.backend, epoch=hvd.rank())
    state.sync()
    assert state.epoch == 0
    assert all((each == 1).all() for each in model.get_weights())
    model.set_weights([each * 5 for each in model.get_weights()])
    state.restore()
    assert all((each == 1).all() for each in model.get_weights())


def test_run_joins_again_and_goes_on() -> None:
    variable = tf.Variable(float(hvd.rank()))
    state = TensorFlowState([variable], epoch=hvd.rank())
    resets = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state: Any, epochs: int) -> str:
        while state.epoch < epochs:
            variable.assign_add(hvd.allreduce(tf.constant(1.0), name="step"))
            state.epoch += 1
            state.commit()
            if state.epoch == 2:
                raise HostsUpdatedInterrupt
        return "done"

    assert train(state, 4) == "done"
    assert variable.numpy() == 4 and state.epoch == 4 and resets == [hvd.size()]


@pytest.mark.parametrize("name", [None, "gradient"])
def test_a_lost_rank_in_a_job_that_is_not_elastic(
    several_ranks: None,
    run: Run,  # noqa: F811
    name: str | None,
) -> None:
    @hvd.elastic.run
    def train(state: Any) -> None:
        if hvd.rank() == 1:
            hvd.shutdown()
        else:
            run(lambda tensor: hvd.allreduce(tensor, name=name), np.ones(3, "float32"))

    state = TensorFlowState([])
    if hvd.rank() == 1:
        train(state)
    else:
        with pytest.raises(HorovodInternalError, match=r"(?s)rank 1.*not started with elastic"):
            train(state)


def test_other_errors_of_tensorflow_are_raised() -> None:
    @hvd.elastic.run
    def train(state: Any) -> None:
        raise tf.errors.UnknownError(None, None, "disk")

    with pytest.raises(tf.errors.UnknownError, match="disk"):
        train(TensorFlowState([]))
