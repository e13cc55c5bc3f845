"""Broadcast with MXNet: arrays, parameters, objects."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet_arrays import DTYPES, SHAPES, array, assert_same, even_and_odd, mine, refused

import horovod.mxnet as hvd


def test_from_each_root_in_each_type() -> None:
    for root in range(hvd.size()):
        for dtype in DTYPES:
            for shape in SHAPES:
                result = hvd.broadcast(array(shape, dtype), root)
                assert np.dtype(result.dtype) == dtype
                assert_same(result, mine(shape, dtype, root))


def test_in_place() -> None:
    root = hvd.size() - 1
    tensor = array((17, 3))
    assert hvd.broadcast_(tensor, root) is tensor
    assert_same(tensor, mine((17, 3), rank=root))


@pytest.mark.usefixtures("several_ranks")
def test_on_process_sets() -> None:
    own = even_and_odd()[hvd.rank() % 2]
    root = own.ranks[-1]
    result = hvd.broadcast(array((17,)), root, process_set=own)
    assert_same(result, mine((17,), rank=root))
    assert_same(hvd.broadcast_(array((17,)), root, process_set=own), mine((17,), rank=root))


@pytest.mark.usefixtures("several_ranks")
def test_ranks_that_disagree() -> None:
    rank = hvd.rank()
    with refused("shape"):
        hvd.broadcast(mx.nd.ones((2 + rank,)), 0, name="shape").wait_to_read()
    with refused("type"):
        dtype = "int32" if rank % 2 else "float32"
        hvd.broadcast(mx.nd.ones((2,), dtype=dtype), 0, name="type").wait_to_read()
    with refused("root"):
        hvd.broadcast_(mx.nd.ones((2,)), rank % 2, name="root").wait_to_read()
    with refused("root rank"):
        hvd.broadcast(mx.nd.ones((2,)), hvd.size(), name="unknown").wait_to_read()


def test_a_dict_of_arrays_from_the_last_rank() -> None:
    root = hvd.size() - 1
    arrays = {f"{dtype}{i}": array((5, i + 1), dtype) for i, dtype in enumerate(DTYPES)}
    hvd.broadcast_parameters(arrays, root_rank=root)
    for i, dtype in enumerate(DTYPES):
        assert_same(arrays[f"{dtype}{i}"], mine((5, i + 1), dtype, root))


def network(**first: Any) -> Any:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8, activation="relu", **first), gluon.nn.Dense(2, in_units=8))
    net.initialize(mx.init.Normal(1.0))
    return net


def values(net: Any) -> list[Any]:
    parameters = net.collect_params()
    return [parameters[name].data().asnumpy() for name in sorted(parameters.keys())]


def assert_equal_everywhere(net: Any) -> None:
    for others in hvd.allgather_object(values(net)):
        for mine_, theirs in zip(values(net), others):
            np.testing.assert_array_equal(mine_, theirs)


def batch() -> Any:
    inputs = mx.nd.ones((4, 3))
    return inputs.as_np_ndarray() if mx.__version__ >= "2" else inputs


@pytest.mark.usefixtures("several_ranks")
def test_parameters_of_a_network() -> None:
    mx.random.seed(hvd.rank())
    net = network(in_units=3)
    before = values(net)
    hvd.broadcast_parameters(net.collect_params(), root_rank=1)
    assert_equal_everywhere(net)
    if hvd.rank() == 1:
        for old, new in zip(before, values(net)):
            np.testing.assert_array_equal(old, new)


@pytest.mark.usefixtures("several_ranks")
def test_parameters_whose_shape_is_not_known_yet() -> None:
    mx.random.seed(hvd.rank())
    net = network()
    hvd.broadcast_parameters(net.collect_params(), root_rank=1, prefix="deferred.")
    with autograd.record():
        net(batch())
    assert_equal_everywhere(net)
    # Once is enough: what is initialized later is not broadcast.
    first = net[0].weight
    first.initialize(mx.init.Constant(hvd.rank()), force_reinit=True)
    assert (first.data().asnumpy() == hvd.rank()).all()


def test_what_is_no_set_of_parameters() -> None:
    for wrong in ([mx.nd.ones((2,))], mx.nd.ones((2,)), "weights"):
        with pytest.raises(ValueError, match="broadcast_parameters"):
            hvd.broadcast_parameters(wrong)


def test_objects() -> None:
    root = hvd.size() - 1
    assert hvd.broadcast_object({"rank": hvd.rank()}, root_rank=root) == {"rank": root}
    expected = [["rank", rank] for rank in range(hvd.size())]
    assert hvd.allgather_object(["rank", hvd.rank()]) == expected
