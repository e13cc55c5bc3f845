"""Operations of Keras on values."""

from __future__ import annotations

import numpy as np
import pytest
from keras_cases import hvd, variable


def test_allreduce() -> None:
    rank, size = hvd.rank(), hvd.size()
    assert hvd.allreduce(float(rank), name="number") == (size - 1) / 2
    np.testing.assert_allclose(
        hvd.allreduce([1.0, 2.0 * rank], op=hvd.Sum), [size, size * (size - 1)]
    )
    np.testing.assert_allclose(hvd.allreduce(np.float32([rank + 1])), [(size + 1) / 2])
    scaled = hvd.allreduce(np.float32([1]), op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0)
    np.testing.assert_allclose(scaled, [6 * size])


def test_average_in_the_old_way() -> None:
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(1.0, average=False) == hvd.size()
    with pytest.raises(ValueError):
        hvd.allreduce(1.0, average=True, op=hvd.Sum)


def test_allreduce_with_compression() -> None:
    received = hvd.allreduce(np.float32([1.0, 3.0]), compression=hvd.Compression.fp16)
    assert received.dtype == np.float32
    np.testing.assert_allclose(received, [1.0, 3.0])


def test_tensors_and_variables() -> None:
    each = variable([float(hvd.rank())])
    np.testing.assert_allclose(hvd.allreduce(each), [(hvd.size() - 1) / 2])
    np.testing.assert_allclose(hvd.broadcast(each, 0), [0.0])


def test_allgather() -> None:
    received = hvd.allgather(np.full((hvd.rank() + 1, 2), hvd.rank()), name="rows")
    expected = np.concatenate([np.full((rank + 1, 2), rank) for rank in range(hvd.size())])
    np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("root", [0, 1])
def test_broadcast(root: int, several_ranks: None) -> None:
    assert hvd.broadcast(hvd.rank(), root, name="number") == root
    np.testing.assert_array_equal(hvd.broadcast([hvd.rank()] * 3, root), [root] * 3)


def test_reducescatter() -> None:
    rows = np.arange(2.0 * hvd.size())
    own = rows[2 * hvd.rank() : 2 * hvd.rank() + 2]
    np.testing.assert_allclose(hvd.reducescatter(rows), own)
    np.testing.assert_allclose(hvd.reducescatter(rows, op=hvd.Sum, name="s"), own * hvd.size())
