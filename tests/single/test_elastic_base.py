"""Elastic states and the loop around a training function, with pretended ranks and resets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from horovod.common import elastic
from horovod.common.elastic import HostUpdateResult, ObjectState, State, run_fn
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.notifications import WorkerNotificationManager, notification_manager


def alone(obj: Any) -> Any:
    return obj


def new_state(bcast_object: Callable[[Any], Any] = alone, **kwargs: Any) -> ObjectState:
    return ObjectState(bcast_object, lambda: 0, **kwargs)


class Recorder(State):
    """Notes what the loop does."""

    def __init__(self) -> None:
        super().__init__(alone, lambda: 0)
        self.calls: list[str] = []

    def save(self) -> None:
        self.calls.append("save")

    def restore(self) -> None:
        self.calls.append("restore")

    def sync(self) -> None:
        self.calls.append("sync")

    def reset(self) -> None:
        self.calls.append("reset")


def training(state: Recorder, outcomes: list[Any]) -> Callable[..., Any]:
    """A function that raises or returns one outcome after the other."""
    left: Iterator[Any] = iter(outcomes)

    def train(given: State, *args: Any, **kwargs: Any) -> Any:
        assert given is state
        state.calls.append("train")
        outcome = next(left)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome, args, kwargs

    return train


def test_attributes_are_saved_restored_and_committed() -> None:
    state = new_state(epoch=1, batch=2)
    state.epoch, state.batch = 10, 20
    state.restore()
    assert (state.epoch, state.batch) == (1, 2)
    state.epoch = 11
    state.commit()
    state.epoch, state.batch = 12, 22
    state.restore()
    assert (state.epoch, state.batch) == (11, 2)


def test_sync_takes_what_rank_0_has_now_and_saves_it() -> None:
    sent = []

    def from_rank_0(obj: Any) -> Any:
        sent.append(obj)
        return {"epoch": 7}

    state = new_state(from_rank_0, epoch=1)
    state.epoch = 3
    state.sync()
    assert sent == [{"epoch": 3}] and state.epoch == 7
    state.epoch = 8
    state.restore()
    assert state.epoch == 7


def test_without_attributes_nothing_is_sent() -> None:
    def refuse(obj: Any) -> Any:
        raise AssertionError(f"sent {obj}")

    new_state(refuse).sync()


def test_a_state_must_say_how_it_is_kept() -> None:
    state = State(alone, lambda: 0)
    for method in ("save", "restore", "sync"):
        with pytest.raises(NotImplementedError, match=rf"State must define {method}\(\)"):
            getattr(state, method)()
    state.reset()


UPDATES = {
    "removed": ([(1, HostUpdateResult.removed)], True),
    "added": ([(1, HostUpdateResult.added)], False),
    "one after the other": ([(1, HostUpdateResult.removed), (2, HostUpdateResult.added)], False),
    "at the same time": ([(1, HostUpdateResult.removed), (1, HostUpdateResult.added)], False),
    "in disorder": ([(2, HostUpdateResult.removed), (1, HostUpdateResult.added)], False),
    "removed twice": ([(1, HostUpdateResult.removed), (2, HostUpdateResult.removed)], True),
}


@pytest.mark.parametrize("case", UPDATES)
def test_changes_of_hosts_interrupt_once(case: str) -> None:
    messages, skip_sync = UPDATES[case]
    state = new_state(epoch=1)
    state.commit()
    for message in messages:
        state.on_hosts_updated(*message)
    state.epoch = 2
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.commit()
    assert caught.value.skip_sync is skip_sync
    state.epoch = 3
    state.restore()
    assert state.epoch == 2
    state.on_hosts_updated(1, HostUpdateResult.added)  # old news
    state.commit()


def test_only_what_rank_0_knows_counts() -> None:
    state = new_state(lambda obj: (0, 0, 0))
    state.on_hosts_updated(5, HostUpdateResult.added)
    state.check_host_updates()
    other = new_state(lambda obj: (0, 9, HostUpdateResult.removed))
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        other.check_host_updates()
    assert caught.value.skip_sync


def test_the_kinds_of_changes() -> None:
    kinds = HostUpdateResult
    assert [kinds.no_update, kinds.removed, kinds.added, kinds.mixed] == [0, 1, 2, 3]


def test_reset_forgets_messages_and_calls_back_in_order() -> None:
    state = Recorder()
    state.register_reset_callbacks([lambda: state.calls.append("first")])
    state.register_reset_callbacks([lambda: state.calls.append("second")])
    state.on_hosts_updated(1, HostUpdateResult.added)
    state.on_reset()
    assert state.calls == ["reset", "first", "second"]
    state.check_host_updates()


def test_run_returns_what_the_function_does() -> None:
    state = Recorder()
    result = run_fn(training(state, ["done"]), lambda: None)(state, 1, key=2)
    assert result == ("done", (1,), {"key": 2})
    assert state.calls == ["sync", "train"]


def test_run_restores_after_a_failure() -> None:
    state = Recorder()
    train = training(state, [HorovodInternalError("lost"), "done"])
    run_fn(train, lambda: state.calls.append("rejoin"))(state)
    assert state.calls == ["sync", "train", "restore", "rejoin", "reset", "sync", "train"]


def test_run_goes_on_after_hosts_have_changed() -> None:
    state = Recorder()
    outcomes = [HostsUpdatedInterrupt(True), HostsUpdatedInterrupt(False), "done"]
    run_fn(training(state, outcomes), lambda: state.calls.append("rejoin"))(state)
    again = ["rejoin", "reset"]
    assert state.calls == ["sync", "train", *again, "train", *again, "sync", "train"]


def test_a_failure_in_sync_is_one_like_any_other() -> None:
    state = Recorder()
    failures = [HorovodInternalError("lost")]
    sync = state.sync

    def failing_sync() -> None:
        sync()
        if failures:
            raise failures.pop()

    state.sync = failing_sync  # type: ignore[method-assign]
    run_fn(training(state, ["done"]), lambda: None)(state)
    assert state.calls == ["sync", "restore", "reset", "sync", "train"]


def test_other_exceptions_are_raised_and_nobody_listens_afterwards() -> None:
    state = Recorder()
    heard = []
    state.on_hosts_updated = lambda *message: heard.append(message)  # type: ignore[method-assign]

    def train(state: State) -> None:
        notification_manager.handle_hosts_updated(1, HostUpdateResult.added)
        raise KeyError("mistake")

    with pytest.raises(KeyError, match="mistake"):
        run_fn(train, lambda: pytest.fail("reset"))(state)
    notification_manager.handle_hosts_updated(2, HostUpdateResult.added)
    assert heard == [(1, HostUpdateResult.added)]


def test_a_job_that_is_not_elastic_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOROVOD_ELASTIC", raising=False)
    monkeypatch.setattr(elastic.basics, "init", lambda: pytest.fail("init would wait for ever"))
    state = Recorder()
    lost = HorovodInternalError("rank 1 is gone")
    with pytest.raises(
        HorovodInternalError, match=r"^rank 1 is gone; .*not started with elastic options"
    ) as caught:
        elastic.run(training(state, [lost]))(state)
    assert caught.value.__cause__ is lost
    assert state.calls == ["sync", "train"]


def test_an_elastic_job_joins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    state = Recorder()
    for name in ("shutdown", "init"):
        monkeypatch.setattr(elastic.basics, name, lambda name=name: state.calls.append(name))
    elastic.run(training(state, [HorovodInternalError("lost"), "done"]))(state)
    again = ["restore", "shutdown", "init", "reset"]
    assert state.calls == ["sync", "train", *again, "sync", "train"]


def test_the_source_of_news_is_started_once() -> None:
    manager = WorkerNotificationManager()
    starts: list[str] = []
    manager.set_source(lambda: starts.append("started"))
    manager.init()
    manager.init()
    assert starts == ["started"]
    state = new_state()
    manager.register_listener(state)
    manager.handle_hosts_updated(1, HostUpdateResult.removed)
    manager.remove_listener(state)
    manager.handle_hosts_updated(2, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.check_host_updates()
    assert caught.value.skip_sync
