"""Reducescatter with MXNet: reductions, scaling, groups, sets, refusals."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet_arrays import (
    DTYPES,
    FLOATS,
    array,
    assert_same,
    even_and_odd,
    everyones,
    refused,
    share,
)

import horovod.mxnet as hvd


def test_sum() -> None:
    for dtype in DTYPES:
        for shape in [(17,), (4 * hvd.size(), 3), (5, 4, 3)]:
            result = hvd.reducescatter(array(shape, dtype), op=hvd.Sum)
            assert np.dtype(result.dtype) == dtype
            assert_same(result, everyones(shape, dtype).sum(axis=0)[share(shape[0])])


def test_average_and_scaling() -> None:
    for dtype in FLOATS:
        total = everyones((17, 3), dtype).sum(axis=0)[share(17)]
        assert_same(hvd.reducescatter(array((17, 3), dtype)), total / hvd.size(), 2e-3)
        scaled = hvd.reducescatter(
            array((17, 3), dtype), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0
        )
        assert_same(scaled, 2 * total)


def test_groups() -> None:
    shapes = [(17,), (6, 2)]
    tensors = [array(shape) for shape in shapes]
    for shape, result in zip(shapes, hvd.grouped_reducescatter(tensors, op=hvd.Sum, name="group")):
        assert_same(result, everyones(shape).sum(axis=0)[share(shape[0])])
    averages = hvd.grouped_reducescatter(tensors, prescale_factor=2.0)
    for shape, result in zip(shapes, averages):
        assert_same(result, 2 * everyones(shape).mean(axis=0)[share(shape[0])], 1e-6)
    empty: list[Any] = []
    assert hvd.grouped_reducescatter(empty) is empty


@pytest.mark.usefixtures("several_ranks")
def test_on_process_sets() -> None:
    own = even_and_odd()[hvd.rank() % 2]
    total = everyones((17, 3), ranks=own.ranks).sum(axis=0)[share(17, own.rank(), own.size())]
    assert_same(hvd.reducescatter(array((17, 3)), op=hvd.Sum, process_set=own), total)
    group = hvd.grouped_reducescatter([array((17, 3))], op=hvd.Sum, process_set=own)
    assert_same(group[0], total)


@pytest.mark.usefixtures("several_ranks")
def test_ranks_that_disagree() -> None:
    with refused("shape"):
        hvd.reducescatter(mx.nd.ones((17, 2 + hvd.rank())), op=hvd.Sum, name="shape")
    with refused("shape"):
        tensors = [mx.nd.ones((4,)), mx.nd.ones((17 + hvd.rank(), 2))]
        hvd.grouped_reducescatter(tensors, op=hvd.Sum, name="shapes")


def test_scalars_have_no_rows() -> None:
    with mx.util.np_shape(True), mx.util.np_array(True):
        scalar = mx.np.ones(())
        with pytest.raises(ValueError, match="scalar"):
            hvd.reducescatter(scalar, op=hvd.Sum)
        with pytest.raises(ValueError, match="scalar"):
            hvd.grouped_reducescatter([scalar, scalar], op=hvd.Sum)


def test_other_reductions_are_refused() -> None:
    for op in (hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
        with pytest.raises(AssertionError):
            hvd.reducescatter(array((4,)), op=op)
