"""The table of pending operations, with an engine whose operations end when the test says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from horovod import _core
from horovod.common import handles
from horovod.common.exceptions import HorovodInternalError


class Engine:
    """Remembers which operations were waited for; `failing` ones raise, as does an interrupt."""

    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.failing: dict[int, BaseException] = {}
        self.waited: list[int] = []

    def poll(self, handle: int) -> bool:
        assert handle not in self.waited
        return handle in self.ended

    def wait(self, handle: int) -> str:
        assert handle not in self.waited
        error = self.failing.pop(handle, None)
        if not isinstance(error, KeyboardInterrupt):
            self.waited.append(handle)
        if error is not None:
            raise error
        return f"output {handle}"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    engine = Engine()
    monkeypatch.setattr(_core, "poll", engine.poll)
    monkeypatch.setattr(_core, "wait", engine.wait)
    yield engine
    handles.forget_all()


def start_group() -> int:
    return handles.remember_group([3, 4, 5], [str.upper, str.title, str.lower], [])


def test_a_group_has_ended_when_all_members_have(engine: Engine) -> None:
    group = start_group()
    for member in (4, 3, 5):
        assert not handles.poll(group)
        engine.ended.add(member)
    assert handles.poll(group)
    assert handles.synchronize(group) == ["OUTPUT 3", "Output 4", "output 5"]


def test_every_member_is_waited_for_and_the_first_error_raised(engine: Engine) -> None:
    group = start_group()
    engine.failing = {4: HorovodInternalError("first"), 5: HorovodInternalError("second")}
    with pytest.raises(HorovodInternalError, match="first"):
        handles.synchronize(group)
    assert engine.waited == [3, 4, 5]
    assert handles.synchronize(group) is None


def test_an_interrupted_wait_goes_on_where_it_was(engine: Engine) -> None:
    group = start_group()
    engine.failing = {4: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        handles.synchronize(group)
    engine.ended = {4}
    assert not handles.poll(group)
    engine.ended = {4, 5}
    assert handles.poll(group)
    assert handles.synchronize(group) == ["OUTPUT 3", "Output 4", "output 5"]


@pytest.mark.usefixtures("engine")
def test_a_single_operation() -> None:
    handle = handles.remember(7, str.upper)
    assert handle == 7
    assert not handles.poll(handle)
    assert handles.synchronize(handle) == "OUTPUT 7"
    assert handles.synchronize(handle) is None
    with pytest.raises(ValueError, match="handle 7"):
        handles.poll(handle)


def test_an_operation_in_place(engine: Engine) -> None:
    tensor = object()
    handles.pending[7] = tensor
    assert not handles.poll(7)
    engine.failing = {7: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        handles.synchronize(7)
    assert handles.synchronize(7) is tensor
    assert handles.synchronize(7) is None


def test_an_operation_in_place_that_fails_is_forgotten(engine: Engine) -> None:
    handles.pending[7] = object()
    engine.failing = {7: HorovodInternalError("lost")}
    with pytest.raises(HorovodInternalError, match="lost"):
        handles.synchronize(7)
    assert handles.synchronize(7) is None


@pytest.mark.usefixtures("engine")
def test_what_is_made_of_an_operation_in_place() -> None:
    handles.pending[7] = "tensor"
    assert handles.then(7, str.upper) == 7
    assert handles.synchronize(7) == "TENSOR"
