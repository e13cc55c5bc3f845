"""Training with MXNet: optimizer, trainer, compression, groups, sets, arrays in NumPy's style."""

from __future__ import annotations

import pickle
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet_arrays import array, assert_same, even_and_odd, everyones

import horovod.mxnet as hvd


def test_fp16_compression() -> None:
    tensor = array((17,)) / 3
    shorter, context = hvd.Compression.fp16.compress(tensor)
    assert np.dtype(shorter.dtype) == "float16"
    restored = hvd.Compression.fp16.decompress(shorter, context)
    assert np.dtype(restored.dtype) == "float32"
    np.testing.assert_allclose(restored.asnumpy(), tensor.asnumpy(), rtol=1e-3)
    integers = array((17,), "int32")
    assert hvd.Compression.fp16.compress(integers)[0] is integers
    assert hvd.Compression.none.compress(tensor)[0] is tensor


def weights_after(optimizer: Any, steps: int = 3) -> Any:
    """A weight after steps with gradients that differ between ranks."""
    weight = mx.nd.ones((5, 2))
    state = optimizer.create_state_multi_precision(0, weight)
    gradient = mx.nd.zeros((5, 2))
    for step in range(steps):
        gradient[:] = 3.0 ** hvd.rank() + step
        # 2.0 takes lists only.
        if mx.__version__ >= "2":
            optimizer.update_multi_precision([0], [weight], [gradient], [state])
        else:
            optimizer.update_multi_precision(0, weight, gradient, state)
    return weight


def expected_after(ranks: Any, steps: int = 3) -> float:
    gradients = [np.mean([3.0**rank + step for rank in ranks]) for step in range(steps)]
    return 1 - 0.1 * sum(gradients)


@pytest.mark.parametrize("predivide", [1.0, 4.0])
def test_an_optimizer(predivide: float) -> None:
    plain = mx.optimizer.create("sgd", learning_rate=0.1)
    optimizer = hvd.DistributedOptimizer(plain, gradient_predivide_factor=predivide)
    weight = weights_after(optimizer)
    assert_same(weight, np.full((5, 2), expected_after(range(hvd.size()))), 1e-6)


def test_an_optimizer_is_the_one_it_wraps() -> None:
    plain = mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(plain)
    assert isinstance(optimizer, mx.optimizer.Optimizer)
    assert optimizer.momentum == 0.9 and optimizer.learning_rate == 0.1
    optimizer.set_learning_rate(0.2)
    optimizer.rescale_grad = 0.5
    assert plain.lr == 0.2 and plain.rescale_grad == 0.5
    assert pickle.loads(pickle.dumps(optimizer)).momentum == 0.9


@pytest.mark.parametrize("groups", [0, 1, 2, 7])
def test_an_optimizer_with_several_weights_at_once(groups: int) -> None:
    plain = mx.optimizer.create("sgd", learning_rate=0.1)
    plain.aggregate_num = 4
    optimizer = hvd.DistributedOptimizer(plain, num_groups=groups)
    weights = [mx.nd.ones((3, i + 1)) for i in range(4)]
    gradients = [mx.nd.full((3, i + 1), hvd.rank() + i) for i in range(4)]
    states = [optimizer.create_state(i, weight) for i, weight in enumerate(weights)]
    optimizer.update([0, 1, 2, 3], weights, gradients, states)
    for i, weight in enumerate(weights):
        mean = np.mean([rank + i for rank in range(hvd.size())])
        assert_same(weight, np.full((3, i + 1), 1 - 0.1 * mean), 1e-6)


@pytest.mark.usefixtures("several_ranks")
def test_an_optimizer_on_a_process_set() -> None:
    even = even_and_odd()[0]
    plain = mx.optimizer.create("sgd", learning_rate=0.1)
    optimizer = hvd.DistributedOptimizer(plain, process_set=even)
    ranks = even.ranks if even.included() else [hvd.rank()]
    weight = weights_after(optimizer)
    assert_same(weight, np.full((5, 2), expected_after(ranks)), 1e-6)
    # The members have equal weights, the others their own.
    everywhere = hvd.allgather_object(float(weight.asnumpy()[0, 0]))
    assert len({everywhere[rank] for rank in even.ranks}) == 1
    assert len(set(everywhere)) == 1 + hvd.size() // 2


def on_cpu(values: np.ndarray) -> Any:
    return mx.np.array(values) if mx.__version__ >= "2" else mx.nd.array(values)


def data(rank: int) -> tuple[Any, Any]:
    """The batch of a rank: two classes, apart from each other."""
    random = np.random.default_rng(rank)
    labels = np.arange(32) % 2
    inputs = random.normal(size=(32, 6)) + 2.0 * labels[:, None]
    return on_cpu(inputs.astype("float32")), on_cpu(labels.astype("float32"))


def network() -> Any:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def values(net: Any) -> dict[str, Any]:
    parameters = net.collect_params()
    return {
        name: parameters[name].data().asnumpy()
        for name in sorted(parameters.keys())
        if parameters[name].grad_req != "null"
    }


def train(nets: list[Any], trainers: list[Any], steps: int) -> list[float]:
    """Losses of the first network, step by step."""
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    inputs, labels = data(hvd.rank())
    losses = []
    for _ in range(steps):
        for net in nets:
            with autograd.record():
                loss = loss_of(net(inputs), labels).mean()
            loss.backward()
            losses.append(float(loss.asnumpy()))
        for trainer in trainers:
            trainer.step(1)
    return losses[:: len(nets)]


def assert_equal_everywhere(net: Any) -> None:
    own = values(net)
    for other in hvd.allgather_object(list(own.values())):
        for mine, theirs in zip(own.values(), other):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_predivide_factor": 2.0},
        {"num_groups": 2},
        {"compression": hvd.Compression.fp16},
        {"compression": hvd.Compression.fp16, "num_groups": 1},
    ],
    ids=["plain", "predivide", "groups", "fp16", "fp16-groups"],
)
def test_a_trainer(options: Any) -> None:
    mx.random.seed(hvd.rank())
    net = network()
    hvd.broadcast_parameters(net.collect_params())
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, **options)
    losses = train([net], [trainer], 20)
    assert losses[-1] < 0.6 * losses[0]
    assert_equal_everywhere(net)


def test_a_trainer_averages_gradients() -> None:
    weight = gluon.Parameter("weight", shape=(3,), init=mx.init.One())
    weight.initialize()
    trainer = hvd.DistributedTrainer({"weight": weight}, "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = (weight.data() * (1.0 + hvd.rank())).sum()
    loss.backward()
    trainer.step(1)
    mean = np.mean([1.0 + rank for rank in range(hvd.size())])
    np.testing.assert_allclose(weight.data().asnumpy(), np.full(3, 1 - mean), rtol=1e-6)


def test_two_trainers_at_once() -> None:
    mx.random.seed(hvd.rank())
    nets = [network(), network()]
    trainers = []
    for prefix, net in zip(("a.", "b."), nets):
        hvd.broadcast_parameters(net.collect_params(), prefix=prefix)
        trainers.append(
            hvd.DistributedTrainer(
                net.collect_params(), "adam", {"learning_rate": 0.01}, prefix=prefix
            )
        )
    losses = train(nets, trainers, 5)
    assert losses[-1] < losses[0]
    for net in nets:
        assert_equal_everywhere(net)


def test_a_distributed_optimizer_is_taken_off() -> None:
    net = network()
    net(data(0)[0])
    plain = mx.optimizer.create("sgd", learning_rate=0.1)
    wrapped = hvd.DistributedOptimizer(plain)
    with pytest.warns(UserWarning, match="DistributedOptimizer"):
        trainer = hvd.DistributedTrainer(net.collect_params(), wrapped)
    assert trainer._optimizer is plain
    assert trainer._scale == pytest.approx(1 / hvd.size())


def test_parameters_averaged_now_and_then() -> None:
    """Ranks train on their own, and average their parameters every few steps."""
    mx.random.seed(hvd.rank())
    net = network()
    hvd.broadcast_parameters(net.collect_params())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    first = train([net], [trainer], 1)[0]
    for _ in range(3):
        last = train([net], [trainer], 5)[-1]
        parameters = net.collect_params()
        for i, name in enumerate(sorted(parameters.keys())):
            hvd.allreduce_(parameters[name].data(), name=f"parameter{i}")
    assert last < first
    assert_equal_everywhere(net)


def test_arrays_in_the_style_of_numpy() -> None:
    with mx.util.np_shape(True), mx.util.np_array(True):
        tensor = mx.np.array(everyones((4, 2))[hvd.rank()], dtype="float32")
        result = hvd.allreduce(tensor, op=hvd.Sum)
        assert isinstance(result, mx.np.ndarray)
        assert_same(result, everyones((4, 2)).sum(axis=0))
        gathered = hvd.allgather(tensor)
        assert isinstance(gathered, mx.np.ndarray)
        scalar = hvd.allreduce(mx.np.ones(()), op=hvd.Sum)
        assert scalar.shape == () and float(scalar) == hvd.size()
        nothing = hvd.allgather(mx.np.ones((0, 3)))
        assert nothing.shape == (0, 3)
        _, received = hvd.alltoall(tensor, splits=[4 // hvd.size()] * hvd.size())
        assert isinstance(received, mx.np.ndarray)


def test_a_type_of_the_engine_that_upstream_does_not_take() -> None:
    with mx.util.np_shape(True), mx.util.np_array(True):
        truths = mx.np.array([True, hvd.rank() == 0, False])
        assert hvd.allreduce(truths, op=hvd.Max).asnumpy().tolist() == [True, True, False]
