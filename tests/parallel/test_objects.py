"""Python objects between ranks."""

from __future__ import annotations

from frameworks import Framework


def test_broadcast_object_from_every_root(framework: Framework) -> None:
    hvd = framework.hvd
    for root in range(hvd.size()):
        own = {"rank": hvd.rank(), "text": "x" * 1000 * hvd.rank()}
        result = hvd.broadcast_object(own, root)
        assert result == {"rank": root, "text": "x" * 1000 * root}
        assert (result is own) == (hvd.rank() == root)


def test_only_the_root_has_an_object(framework: Framework) -> None:
    hvd = framework.hvd
    assert hvd.broadcast_object([1, 2] if hvd.rank() == 0 else None) == [1, 2]
    assert hvd.broadcast_object("named", name="greeting") == "named"


def test_functions_can_be_sent(framework: Framework) -> None:
    hvd = framework.hvd
    rank = hvd.rank()
    assert hvd.broadcast_object(lambda x: (rank, x), 0)(5) == (0, 5)


def test_allgather_object(framework: Framework) -> None:
    hvd = framework.hvd
    objects = hvd.allgather_object({str(key): hvd.rank() for key in range(hvd.rank())})
    assert objects == [{str(key): rank for key in range(rank)} for rank in range(hvd.size())]
    assert hvd.allgather_object(None, name="nothing") == [None] * hvd.size()
