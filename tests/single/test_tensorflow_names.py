"""Programs for upstream Horovod find every name where they look for it: TensorFlow and Keras."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from upstream_names import TENSORFLOW, missing  # noqa: E402

import horovod.tensorflow as hvd  # noqa: E402
from horovod.tensorflow import util  # noqa: E402


@pytest.fixture
def job() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.parametrize("module", TENSORFLOW)
def test_every_name_of_upstream_exists(module: str) -> None:
    assert missing(module, TENSORFLOW[module]) == []


def test_wrapped_optimizers_are_instances(job: None) -> None:
    plain = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    assert isinstance(hvd.DistributedOptimizer(plain), hvd._DistributedOptimizer)
    adasum = hvd.DistributedOptimizer(plain, op=hvd.Adasum)
    assert isinstance(adasum, hvd._DistributedAdasumOptimizer)
    assert not isinstance(plain, hvd._DistributedOptimizer)


def test_programs_derive_from_the_optimizer(job: None) -> None:
    class Mine(hvd._DistributedOptimizer):
        def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
            return [(2 * g, v) for g, v in super().compute_gradients(*args, **kwargs)]

    variable = tf.Variable(1.0)
    mine = Mine(tf.compat.v1.train.GradientDescentOptimizer(0.1), "mine", False, "", "")
    mine.apply_gradients(mine.compute_gradients(lambda: variable * 3.0, [variable]))
    assert variable.numpy() == pytest.approx(1.0 - 0.1 * 2 * 3.0)


def test_a_wrapped_tape_is_an_instance(job: None) -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    wrapped = hvd.DistributedGradientTape(tape)
    assert isinstance(wrapped, hvd._DistributedGradientTape)
    assert wrapped.gradient(y, x).numpy() == 6.0


def test_programs_derive_from_the_tape(job: None) -> None:
    class Mine(hvd._DistributedGradientTape):
        pass

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    none = hvd.Compression.none
    assert Mine(tape, "", "", none, False, hvd.Average, 1.0, None).gradient(y, x).numpy() == 6.0


def test_functions_that_programs_reach_for() -> None:
    calls = []

    @util._cache
    def count(number: int) -> int:
        calls.append(util._executing_eagerly())
        return len(calls)

    assert count(1) == count(1) == 1
    with tf.Graph().as_default():
        assert count(1) == 2
    assert calls == [True, False]
    assert util._make_subgraph(lambda x: x + 1)(tf.constant(1)).numpy() == 2
    variables = [tf.Variable(1.0), [tf.Variable(2.0)]]
    references = util.vars_to_refs(variables)
    assert hash(references) == hash(util.vars_to_refs(variables))
    assert util.refs_to_vars(references)[1][0] is variables[1][0]
