"""Allreduce: every reduction and type, scaling, in place, many at once, names used again."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from frameworks import SHAPES, Framework, assert_close, assert_equal, everyones, mine

from horovod.common.exceptions import HorovodInternalError


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum(framework: Framework, shape: tuple[int, ...]) -> None:
    hvd = framework.hvd
    for dtype in framework.dtypes:
        result = hvd.allreduce(mine(framework, shape, dtype), op=hvd.Sum)
        expected = everyones(shape, dtype).sum(axis=0)
        expected = expected > 0 if dtype == "bool" else expected
        assert_equal(framework, result, expected, dtype)


@pytest.mark.parametrize(
    ("op", "reduce"), [("Min", np.min), ("Max", np.max), ("Product", np.prod)], ids=str
)
def test_other_reductions(framework: Framework, op: str, reduce: np.ufunc) -> None:
    hvd = framework.hvd
    for dtype in framework.dtypes:
        result = hvd.allreduce(mine(framework, (17, 3), dtype), op=getattr(hvd, op))
        assert_equal(framework, result, reduce(everyones((17, 3), dtype), axis=0), dtype)


def test_average_is_the_default_and_truncates_integers(framework: Framework) -> None:
    for dtype in framework.scalable:
        result = framework.hvd.allreduce(mine(framework, (17, 3), dtype))
        total = everyones((17, 3), dtype).sum(axis=0)
        if "int" in dtype:
            expected = np.trunc(total * (1 / framework.hvd.size()))
            assert_equal(framework, result, expected, dtype)
        else:
            assert_close(framework, result, total / framework.hvd.size(), dtype)


@pytest.mark.usefixtures("several_ranks")
def test_average_of_bool_is_refused(framework: Framework) -> None:
    with pytest.raises((HorovodInternalError, ValueError)):
        framework.hvd.allreduce(mine(framework, (4,), "bool"), op=framework.hvd.Average)
    result = framework.hvd.allreduce(mine(framework, (4,), "bool"), op=framework.hvd.Max)
    assert_equal(framework, result, everyones((4,), "bool").any(axis=0), "bool")


@pytest.mark.parametrize(("prescale", "postscale"), [(0.5, 1.0), (1.0, 0.5), (2.0, 0.25)])
def test_scaling(framework: Framework, prescale: float, postscale: float) -> None:
    hvd = framework.hvd
    for dtype in framework.scalable:
        result = hvd.allreduce(
            mine(framework, (17,), dtype),
            op=hvd.Sum,
            prescale_factor=prescale,
            postscale_factor=postscale,
        )
        whole = np.trunc if "int" in dtype else np.asarray
        sent = whole(everyones((17,), dtype) * prescale)
        assert_equal(framework, result, whole(sent.sum(axis=0) * postscale), dtype)


def test_the_input_is_left_alone(framework: Framework) -> None:
    tensor = mine(framework, (17,))
    framework.hvd.allreduce(tensor, op=framework.hvd.Sum)
    assert_equal(framework, tensor, framework.array(mine(framework, (17,))))


def test_in_place(framework: Framework) -> None:
    hvd = framework.hvd
    for dtype in framework.dtypes:
        tensor = mine(framework, (17, 3), dtype)
        assert hvd.allreduce_(tensor, op=hvd.Max) is tensor
        assert_equal(framework, tensor, everyones((17, 3), dtype).max(axis=0), dtype)


def test_many_at_once(framework: Framework) -> None:
    hvd = framework.hvd
    cases = [(dtype, (n, 3)) for n in (1, 64, 1000) for dtype in framework.dtypes]
    handles = [
        hvd.allreduce_async(mine(framework, shape, dtype), name=f"{dtype}.{shape}", op=hvd.Max)
        for dtype, shape in cases
    ]
    assert len(set(handles)) == len(handles)
    for (dtype, shape), handle in reversed(list(zip(cases, handles))):
        result = hvd.synchronize(handle)
        assert_equal(framework, result, everyones(shape, dtype).max(axis=0), dtype)


def test_many_at_once_in_place(framework: Framework) -> None:
    hvd = framework.hvd
    tensors = [mine(framework, (n,)) for n in range(1, 60)]
    handles = [
        hvd.allreduce_async_(tensor, name=str(index), op=hvd.Sum)
        for index, tensor in enumerate(tensors)
    ]
    for tensor, handle in zip(tensors, handles):
        assert hvd.synchronize(handle) is tensor
        assert_equal(framework, tensor, everyones(tuple(tensor.shape)).sum(axis=0))


def test_ranks_may_submit_in_different_orders(framework: Framework) -> None:
    hvd = framework.hvd
    names = [f"tensor{index}" for index in range(10)]
    order = np.random.default_rng(hvd.rank()).permutation(10)
    handles = {
        names[index]: hvd.allreduce_async(
            mine(framework, (int(index) + 1,)), name=names[index], op=hvd.Sum
        )
        for index in order
    }
    for index, name in enumerate(names):
        result = hvd.synchronize(handles[name])
        assert_equal(framework, result, everyones((index + 1,)).sum(axis=0))


def test_a_large_tensor(framework: Framework) -> None:
    hvd = framework.hvd
    result = hvd.allreduce(mine(framework, (3_000_001,)), op=hvd.Sum)
    assert_equal(framework, result, everyones((3_000_001,)).sum(axis=0))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)], ids=str)
def test_small_shapes(framework: Framework, shape: tuple[int, ...]) -> None:
    hvd = framework.hvd
    result = hvd.allreduce(mine(framework, shape), op=hvd.Sum)
    assert_equal(framework, result, everyones(shape).sum(axis=0))


def test_a_name_is_used_again(framework: Framework) -> None:
    hvd = framework.hvd
    for _ in range(20):
        result = hvd.allreduce(mine(framework, (17,)), name="again", op=hvd.Sum)
        assert_equal(framework, result, everyones((17,)).sum(axis=0))


def test_a_name_is_used_again_for_something_else(framework: Framework) -> None:
    hvd = framework.hvd
    for round_ in range(3):
        for dtype, shape in [("float32", (17,)), ("float32", (5, 2)), ("int64", (5, 2))]:
            for op, reduce in [(hvd.Sum, np.sum), (hvd.Max, np.max)]:
                tensor = mine(framework, shape, dtype)
                result = hvd.allreduce(tensor, name="again", op=op)
                assert_equal(framework, result, reduce(everyones(shape, dtype), axis=0), dtype)
        factor = float(round_ + 2)
        result = hvd.allreduce(
            mine(framework, (17,)), name="again", op=hvd.Sum, prescale_factor=factor
        )
        assert_equal(framework, result, everyones((17,)).sum(axis=0) * factor)


def test_the_input_is_kept_alive(framework: Framework) -> None:
    hvd = framework.hvd
    handles = [
        hvd.allreduce_async(mine(framework, (5000,)), name=str(index), op=hvd.Sum)
        for index in range(20)
    ]
    gc.collect()
    for handle in handles:
        assert_equal(framework, hvd.synchronize(handle), everyones((5000,)).sum(axis=0))


def test_handles(framework: Framework) -> None:
    hvd = framework.hvd
    handle = hvd.allreduce_async(mine(framework, (17,)), op=hvd.Sum)
    assert hvd.poll(handle) in (False, True)
    result = hvd.synchronize(handle)
    assert_equal(framework, result, everyones((17,)).sum(axis=0))
    assert hvd.synchronize(handle) is None
    with pytest.raises(ValueError, match="handle"):
        hvd.poll(handle)
    with pytest.raises(ValueError, match="handle"):
        hvd.poll(123_456_789)


def test_unsupported_type(framework: Framework) -> None:
    tensor, dtype = framework.unsupported()
    with pytest.raises(ValueError, match=f"type not supported: {dtype}"):
        framework.hvd.allreduce(tensor, op=framework.hvd.Sum)


def test_unknown_reduction(framework: Framework) -> None:
    with pytest.raises(ValueError, match="unknown reduction 17"):
        framework.hvd.allreduce(mine(framework, (3,)), op=17)
