"""Adasum: orthogonal contributions add up, equal ones are averaged; checked against the formula."""

from __future__ import annotations

import numpy as np
import pytest
from frameworks import Framework, assert_close

from horovod.common.exceptions import HorovodInternalError
from horovod.common.util import num_rank_is_power_2


def combine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rule for two contributions."""
    dot, norm_a, norm_b = (float(np.dot(x, y)) for x, y in ((a, b), (a, a), (b, b)))
    smallest = np.sqrt(np.finfo(np.float64).tiny)
    weight_a = 1 - dot / (2 * norm_a) if norm_a >= smallest else 1.0
    weight_b = 1 - dot / (2 * norm_b) if norm_b >= smallest else 1.0
    return weight_a * a + weight_b * b


def adasum(contributions: list[np.ndarray]) -> np.ndarray:
    """The rule for a power of two of contributions: pairs, then pairs of pairs."""
    while len(contributions) > 1:
        pairs = zip(contributions[::2], contributions[1::2])
        contributions = [combine(a, b) for a, b in pairs]
    return contributions[0]


def contribution(rank: int, length: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal(length)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_adasum_follows_the_formula_for_each_fused_tensor(framework: Framework, dtype: str) -> None:
    hvd = framework.hvd
    lengths = [1, 7, 1000]
    inputs = [framework.tensor(contribution(hvd.rank(), n), dtype) for n in lengths]
    if not num_rank_is_power_2(hvd.size()):
        with pytest.raises(NotImplementedError, match="power of two"):
            hvd.allreduce(inputs[0], op=hvd.Adasum)
        return
    handles = [
        hvd.allreduce_async(tensor, name=f"{index}", op=hvd.Adasum)
        for index, tensor in enumerate(inputs)
    ]
    grouped = hvd.grouped_allreduce(inputs, name="group", op=hvd.Adasum)
    for length, handle, member in zip(lengths, handles, grouped):
        everyones = [
            np.asarray(contribution(rank, length), dtype).astype(np.float64)
            for rank in range(hvd.size())
        ]
        tolerance = 1e-2 if dtype == "float16" else 1e-5
        for result in (hvd.synchronize(handle), member):
            values = framework.array(result).astype(np.float64)
            np.testing.assert_allclose(values, adasum(everyones), rtol=tolerance, atol=tolerance)


def test_adasum_of_equal_tensors_is_that_tensor(framework: Framework) -> None:
    hvd = framework.hvd
    if num_rank_is_power_2(hvd.size()):
        tensor = framework.tensor(np.array([2.0, -3.0, 0.5]))
        result = hvd.allreduce(tensor, op=hvd.Adasum)
        assert_close(framework, result, np.array([2.0, -3.0, 0.5]), "float32")


def test_adasum_is_refused_where_it_makes_no_sense(framework: Framework) -> None:
    hvd = framework.hvd
    if num_rank_is_power_2(hvd.size()):
        with pytest.raises(HorovodInternalError, match="float32"):
            hvd.allreduce(framework.tensor(np.ones(3), "int32"), op=hvd.Adasum)
    tensor = framework.tensor(np.ones(4))
    with pytest.raises(HorovodInternalError, match="Sum and Average only"):
        hvd.reducescatter(tensor, op=hvd.Adasum)
    with pytest.raises(HorovodInternalError, match="Sum and Average only"):
        hvd.grouped_reducescatter([tensor], op=hvd.Adasum)
