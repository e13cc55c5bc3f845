"""Broadcast: every root and type, in place and not, many at once."""

from __future__ import annotations

import pytest
from frameworks import SHAPES, Framework, assert_equal, mine, values


@pytest.mark.parametrize("shape", [*SHAPES, (), (0,)], ids=str)
def test_every_root(framework: Framework, shape: tuple[int, ...]) -> None:
    hvd = framework.hvd
    for root in range(hvd.size()):
        for dtype in framework.dtypes:
            tensor = mine(framework, shape, dtype)
            result = hvd.broadcast(tensor, root)
            assert result is not tensor
            assert_equal(framework, result, values(root, shape, dtype), dtype)
            assert_equal(framework, tensor, values(hvd.rank(), shape, dtype), dtype)


def test_in_place(framework: Framework) -> None:
    hvd = framework.hvd
    for root in range(hvd.size()):
        for dtype in framework.dtypes:
            tensor = mine(framework, (17, 3), dtype)
            assert hvd.broadcast_(tensor, root) is tensor
            assert_equal(framework, tensor, values(root, (17, 3), dtype), dtype)


def test_many_at_once_from_different_roots(framework: Framework) -> None:
    hvd = framework.hvd
    handles = [
        hvd.broadcast_async(mine(framework, (n, 2)), n % hvd.size(), name=str(n)) for n in range(40)
    ]
    for n, handle in enumerate(handles):
        assert_equal(framework, hvd.synchronize(handle), values(n % hvd.size(), (n, 2)))


def test_a_name_is_used_again_with_another_root(framework: Framework) -> None:
    hvd = framework.hvd
    for root in list(range(hvd.size())) * 3:
        result = hvd.broadcast(mine(framework, (17,)), root, name="again")
        assert_equal(framework, result, values(root, (17,)))


def test_broadcast_parameters(framework: Framework) -> None:
    hvd = framework.hvd
    root = hvd.size() - 1
    by_name = {str(n): mine(framework, (n,)) for n in range(5)}
    hvd.broadcast_parameters(by_name, root)
    pairs = [(str(n), mine(framework, (n,))) for n in range(5)]
    hvd.broadcast_parameters(pairs, root)
    plain = [mine(framework, (n,)) for n in range(5)]
    hvd.broadcast_parameters(plain, root)
    for n in range(5):
        for tensor in (by_name[str(n)], pairs[n][1], plain[n]):
            assert_equal(framework, tensor, values(root, (n,)))
    with pytest.raises(ValueError, match="expected a dict"):
        hvd.broadcast_parameters(17, root)


def test_a_root_that_does_not_exist(framework: Framework) -> None:
    hvd = framework.hvd
    for root in (-1, hvd.size()):
        with pytest.raises(ValueError, match=r".+"):
            hvd.broadcast(mine(framework, (3,)), root)
