"""Python objects between ranks."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from frameworks import Framework

from horovod.common import collectives
from horovod.common.exceptions import HorovodInternalError
from horovod.common.handles import synchronize


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


class Trap:
    """Leaves a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path,))


class Wire:
    """What an attacker on the network does to the objects that this rank receives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[bytes] = []
        self.replacement: bytes | None = None
        self.flips = False
        self._broadcast = collectives.broadcast
        monkeypatch.setattr(collectives, "broadcast", self.broadcast)

    def broadcast(self, view, root_rank, name, *rest):  # type: ignore[no-untyped-def]
        handle = self._broadcast(view, root_rank, name, *rest)
        if not name.endswith(".t") or collectives.is_root(root_rank):
            return handle
        synchronize(handle)
        content = ctypes.string_at(view.address, view.shape[0])
        self.seen.append(content)
        if self.flips:
            content = bytes([content[0] ^ 1]) + content[1:]
        if self.replacement is not None:
            content = self.replacement
        ctypes.memmove(view.address, content, len(content))
        return handle


def test_an_object_that_was_changed_on_its_way_is_not_unpickled(
    framework: Framework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hvd = framework.hvd
    trap = tmp_path / "unpickled"
    wire = Wire(monkeypatch)
    wire.flips = True
    if hvd.rank() == 0:
        hvd.broadcast_object(Trap(trap), 0, name="changed")
    else:
        with pytest.raises(HorovodInternalError, match=r"rank 0 on host .* is not the one that ar"):
            hvd.broadcast_object(None, 0, name="changed")
    assert not trap.exists()


def test_gathered_objects_that_were_changed_on_their_way_are_not_unpickled(
    framework: Framework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hvd = framework.hvd
    trap = tmp_path / "unpickled"
    original = collectives.allgather

    def changed(view, name, process_set, convert):  # type: ignore[no-untyped-def]
        def flip(output):  # type: ignore[no-untyped-def]
            content = convert(output)
            return bytes([content[0] ^ 1]) + content[1:] if name.endswith(".t") else content

        return original(view, name, process_set, flip)

    monkeypatch.setattr(collectives, "allgather", changed)
    with pytest.raises(HorovodInternalError, match=r"rank 0 on host .* is not the one that ar"):
        hvd.allgather_object(Trap(trap), name="gathered, changed")
    assert not trap.exists()


def test_an_object_of_an_earlier_call_is_not_taken_for_that_of_a_later_one(
    framework: Framework, monkeypatch: pytest.MonkeyPatch
) -> None:
    hvd = framework.hvd
    wire = Wire(monkeypatch)
    assert hvd.broadcast_object("first", 0, name="again") == "first"
    assert hvd.broadcast_object("third", 0, name="again") == "third"
    if hvd.rank() == 0:
        hvd.broadcast_object("other", 0, name="again")
        return
    wire.replacement = wire.seen[0]
    with pytest.raises(HorovodInternalError, match="was not unpickled"):
        hvd.broadcast_object(None, 0, name="again")
