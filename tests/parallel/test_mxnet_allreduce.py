"""Allreduce with MXNet: reductions, types, groups, order, refusals."""

from __future__ import annotations

import ctypes
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet_arrays import (
    DTYPES,
    FLOATS,
    SHAPES,
    array,
    assert_same,
    even_and_odd,
    everyones,
    mine,
    refused,
)

import horovod.mxnet as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.mxnet import engine


@pytest.mark.parametrize(
    ("op", "reduce"),
    [(hvd.Sum, np.sum), (hvd.Min, np.min), (hvd.Max, np.max), (hvd.Product, np.prod)],
    ids=["sum", "min", "max", "product"],
)
def test_reductions(op: int, reduce: Any) -> None:
    for dtype in DTYPES:
        for shape in SHAPES:
            result = hvd.allreduce(array(shape, dtype), op=op)
            assert np.dtype(result.dtype) == dtype
            assert_same(result, reduce(everyones(shape, dtype), axis=0))


def test_average() -> None:
    for dtype in DTYPES:
        result = hvd.allreduce(array((17, 3), dtype))
        mean = everyones((17, 3), dtype).mean(axis=0)
        assert_same(result, mean, 2e-3 if dtype in FLOATS else 1.0)


def test_average_is_an_old_argument() -> None:
    with pytest.warns(DeprecationWarning):
        assert_same(hvd.allreduce(array((3,)), average=False), everyones((3,)).sum(axis=0))


def test_in_place() -> None:
    for dtype in DTYPES:
        tensor = array((17, 3), dtype)
        assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
        assert_same(tensor, everyones((17, 3), dtype).sum(axis=0))


def test_the_input_stays_what_it_was() -> None:
    tensor = array((17, 3))
    hvd.allreduce(tensor, op=hvd.Sum).wait_to_read()
    assert_same(tensor, mine((17, 3)))


def test_scaling() -> None:
    for dtype in FLOATS:
        tensor = array((17,), dtype)
        result = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
        assert_same(result, 2 * everyones((17,), dtype).sum(axis=0))
        hvd.allreduce_(tensor, op=hvd.Sum, prescale_factor=2.0)
        assert_same(tensor, 2 * everyones((17,), dtype).sum(axis=0))


@pytest.mark.usefixtures("several_ranks")
def test_on_process_sets() -> None:
    own = even_and_odd()[hvd.rank() % 2]
    total = everyones((17,), ranks=own.ranks).sum(axis=0)
    assert_same(hvd.allreduce(array((17,)), op=hvd.Sum, process_set=own), total)
    assert_same(hvd.allreduce(array((17,)), process_set=own), total / own.size(), 1e-6)
    assert_same(hvd.allreduce_(array((17,)), op=hvd.Sum, process_set=own), total)
    group = hvd.grouped_allreduce([array((17,)), array((17,))], op=hvd.Sum, process_set=own)
    for result in group:
        assert_same(result, total)


def test_temporaries_are_kept_alive() -> None:
    results = [hvd.allreduce(array((1000,)) + 0.0, name=f"t{i}", op=hvd.Sum) for i in range(50)]
    for result in results:
        assert_same(result + 0.0, everyones((1000,)).sum(axis=0))


def test_operations_are_ordered_by_their_arrays() -> None:
    tensor = mx.nd.ones((100, 100))
    for step in range(5):
        tensor *= 2
        hvd.allreduce_(tensor, name=f"s{step}")
        tensor += 1
    expected = np.ones((100, 100))
    for _ in range(5):
        expected = expected * 2 + 1
    assert_same(tensor, expected)


def test_hundreds_at_once() -> None:
    tensors = [mx.nd.full((10,), i) for i in range(300)]
    for i in range(300):
        # Ranks start in different orders.
        place = i if hvd.rank() % 2 else 299 - i
        hvd.allreduce_(tensors[place], name=f"many{place}", op=hvd.Sum)
    for i, tensor in enumerate(tensors):
        assert_same(tensor, np.full((10,), i * hvd.size()))


def test_groups() -> None:
    shapes = [(17,), (5, 4), (3,)]
    for in_place in (False, True):
        for dtype in ("float32", "int64"):
            tensors = [array(shape, dtype) for shape in shapes]
            reduce = hvd.grouped_allreduce_ if in_place else hvd.grouped_allreduce
            results = reduce(tensors, op=hvd.Sum, name="group")
            assert not in_place or results is tensors
            for shape, result in zip(shapes, results):
                assert_same(result, everyones(shape, dtype).sum(axis=0))
    results = hvd.grouped_allreduce([array((17,))])
    assert_same(results[0], everyones((17,)).mean(axis=0), 1e-6)


def test_groups_of_arrays_that_share_memory() -> None:
    whole = array((4, 3))
    hvd.grouped_allreduce_([whole[0:2], whole[2:4]], op=hvd.Sum, name="slices")
    assert_same(whole, everyones((4, 3)).sum(axis=0))
    same = array((3,))
    for result in hvd.grouped_allreduce([same, same], op=hvd.Sum, name="twice"):
        assert_same(result, everyones((3,)).sum(axis=0))
    for group in ([same, same], [whole, whole[1:2]]):
        with refused("the same memory"):
            hvd.grouped_allreduce_(group, op=hvd.Sum, name="overlap")
            group[0].wait_to_read()


def test_an_empty_group() -> None:
    empty: list[Any] = []
    assert hvd.grouped_allreduce(empty) is empty
    assert hvd.grouped_allreduce_(empty) is empty


@pytest.mark.usefixtures("several_ranks")
def test_ranks_that_disagree() -> None:
    rank = hvd.rank()
    with refused("shape"):
        hvd.allreduce(mx.nd.ones((17 + rank, 3)), name="shape").wait_to_read()
    with refused("shape"):
        hvd.allreduce_(mx.nd.ones([17] * (1 + rank % 2)), name="rank").asnumpy()
    with refused("type"):
        dtype = "int32" if rank % 2 else "float32"
        hvd.allreduce(mx.nd.ones((17,), dtype=dtype), name="type").wait_to_read()
    assert_same(hvd.allreduce(array((3,)), op=hvd.Sum), everyones((3,)).sum(axis=0))


@pytest.mark.usefixtures("several_ranks")
def test_an_error_is_both_horovods_and_mxnets() -> None:
    result = hvd.allreduce(mx.nd.ones((1 + hvd.rank(),)), name="both")
    with pytest.raises(HorovodInternalError, match=r"rank \d .* has"):
        (result + 1).wait_to_read()
    with pytest.raises(mx.base.MXNetError):
        hvd.allreduce(mx.nd.ones((1 + hvd.rank(),)), name="both")
        mx.nd.waitall()


def test_groups_on_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of another device travel by way of the host; `cpu(1)` plays the device here."""
    monkeypatch.setattr(engine, "_HAS_GPUS", True)
    monkeypatch.setattr(engine, "is_on_gpu", lambda array: array.context.device_id == 1)
    there = array((5,)).as_in_context(mx.cpu(1))
    results = hvd.grouped_allreduce([there, array((17,))], op=hvd.Sum)
    assert [result.context for result in results] == [mx.cpu(1), mx.cpu(0)]
    assert_same(results[0], everyones((5,)).sum(axis=0))
    assert hvd.allreduce_(there, op=hvd.Sum) is there
    assert_same(there, everyones((5,)).sum(axis=0))
    gathered = hvd.allgather(array((5,)).as_in_context(mx.cpu(1)))
    assert gathered.context == mx.cpu(1)
    assert_same(gathered, everyones((5,)).reshape(-1))


def test_what_is_refused_at_once() -> None:
    with pytest.raises(AssertionError):
        hvd.allreduce(array((3,)), op=hvd.Adasum)
    with pytest.raises(ValueError, match="unknown reduction"):
        hvd.allreduce(array((3,)), op=17)
    with pytest.raises(ValueError, match="sparse"):
        hvd.allreduce(mx.nd.zeros((3, 2)).tostype("row_sparse"))
    with pytest.raises(ValueError, match="cannot both"):
        hvd.allreduce(array((3,)), average=True, op=hvd.Sum)


def test_after_shutdown_an_error_is_raised_where_the_result_is_used() -> None:
    hvd.shutdown()
    with refused("init"):
        hvd.allreduce(mx.nd.ones((3,))).wait_to_read()


def test_an_input_that_could_not_be_computed() -> None:
    for operation in (hvd.allreduce, hvd.allgather):
        broken = hvd.broadcast(mx.nd.ones((3,)), hvd.size(), name="no such root")
        with pytest.raises(mx.base.MXNetError, match="root rank"):
            operation(broken + 1).wait_to_read()


def convolution() -> tuple[Any, Any, Any]:
    """A convolution whose weights MXNet has put in its own order, for inference."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(16, 3, in_channels=8), gluon.nn.Conv2D(32, 3, in_channels=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    batch = mx.nd.ones((2, 8, 12, 12))
    batch = batch.as_np_ndarray() if mx.__version__ >= "2" else batch
    with autograd.record():
        net(batch)
    weight = net[1].weight.data()
    values = weight.asnumpy()
    for _ in range(2):
        net(batch).asnumpy()
    return net, weight, values


@pytest.mark.parametrize("in_place", [True, False])
def test_weights_in_the_order_of_an_accelerated_operator(in_place: bool) -> None:
    _net, weight, values = convolution()
    expected = sum(hvd.allgather_object(values))
    reduce = hvd.allreduce_ if in_place else hvd.allreduce
    assert_same(reduce(weight, op=hvd.Sum), expected, 1e-6)


def test_the_memory_is_the_arrays_own() -> None:
    """In place means in place: the address stays."""

    def address(tensor: Any) -> int | None:
        place = ctypes.c_void_p()
        mx.base.check_call(mx.base._LIB.MXNDArrayGetData(tensor.handle, ctypes.byref(place)))
        return place.value

    tensor = array((17,))
    tensor.wait_to_read()
    before = address(tensor)
    hvd.allreduce_(tensor).wait_to_read()
    assert address(tensor) == before
