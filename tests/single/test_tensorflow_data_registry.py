"""The registry of a data service, and those who come to its door without the key.

Its modules need no TensorFlow, so they are imported without the packages above them, which do."""

from __future__ import annotations

import importlib
import re
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

import horovod

KEY = b"k" * 32


def bare_package(name: str) -> ModuleType:
    """A package of horovod without what its `__init__` does."""
    package = ModuleType(name)
    package.__path__ = [str(Path(horovod.__file__).parents[1].joinpath(*name.split(".")))]
    return package


def imported(*names: str) -> Iterator[ModuleType]:
    packages = ("horovod.tensorflow", "horovod.tensorflow.data")
    with mock.patch.dict(sys.modules, {name: bare_package(name) for name in packages}):
        for name in names:
            yield importlib.import_module(f"horovod.tensorflow.data.{name}")


registry, refusals = imported("registry", "refusals")
ComputeClient, Registry, Server = registry.ComputeClient, registry.Registry, registry.Server


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server(Registry(1, 1), KEY)
    yield serving
    serving.close()


def client(server: Server, key: bytes = KEY) -> ComputeClient:
    return ComputeClient(server.addresses, key, 10)


def silent(server: Server) -> socket.socket:
    return socket.create_connection(server.addresses[0], timeout=10)


def is_hung_up(connection: socket.socket) -> bool:
    """Whether the other side ends the connection, after whatever it has to say."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_questions_are_answered(server: Server) -> None:
    client(server).register_dispatcher(0, "grpc://here:1")
    assert client(server).wait_for_dispatcher_registration(0, 1) == "grpc://here:1"
    with pytest.raises(TimeoutError, match="workers of dispatcher 0"):
        client(server).wait_for_dispatcher_worker_registration(0, 0.01)


def test_a_silent_connection_holds_up_nobody(server: Server) -> None:
    with silent(server), silent(server):
        client(server).register_dispatcher(0, "grpc://here:1")


def test_the_handshake_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "HANDSHAKE_SECONDS", 0.2)
    server = Server(Registry(1, 1), KEY)
    try:
        with silent(server) as mute, silent(server) as slow:
            slow.sendall(b"\0")  # a part of a length
            assert is_hung_up(mute)
            assert is_hung_up(slow)
    finally:
        server.close()


def test_the_oldest_stranger_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "HANDSHAKES", 8)
    monkeypatch.setattr(registry, "HANDSHAKE_SECONDS", 1000.0)
    server = Server(Registry(1, 1), KEY)
    strangers = [silent(server) for _ in range(20)]
    try:
        client(server).register_dispatcher(0, "grpc://here:1")
        assert all(is_hung_up(stranger) for stranger in strangers[:12])
        assert len(server._unauthenticated) <= 8
        answering = [t for t in threading.enumerate() if t.name == "hvd-data-answer"]
        assert len(answering) <= 8 + len(strangers[:12])
    finally:
        for stranger in strangers:
            stranger.close()
        server.close()


def test_the_limits_are_those_that_are_promised() -> None:
    assert (registry.HANDSHAKES, registry.HANDSHAKE_SECONDS) == (256, 5.0)


def test_a_wrong_key_is_refused(server: Server) -> None:
    with pytest.raises(ConnectionError, match="cannot be reached"):
        client(server, b"x" * 32).shutdown()
    client(server).shutdown()


class Clock:
    """What `refusals` takes for the time."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_a_flood_is_one_line_a_minute_with_its_number(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(refusals, "time", clock)
    count = refusals.Refusals("hvd-test")
    count.refuse("192.0.2.7", "wrong")
    first = "hvd-test: 1 connection did not prove the job's key and could do nothing; "
    assert caplog.messages == [first + "from 192.0.2.7: wrong"]
    clock.now += 59
    for _ in range(1000):
        count.refuse("192.0.2.8", "late")
    assert len(caplog.messages) == 1
    clock.now += 1
    count.refuse("192.0.2.9", "last")
    many = "hvd-test: 1001 connections did not prove the job's key and could do nothing; "
    assert caplog.messages[1:] == [many + "the last one from 192.0.2.9: last"]
    count.refuse("192.0.2.1", "the rest")
    count.close()
    count.close()
    assert caplog.messages[2:] == [first + "from 192.0.2.1: the rest"]


def test_the_wording_is_that_of_the_other_ports() -> None:
    core = Path(__file__).parents[2] / "crates/hvd-rendezvous/src/accept/refusals.rs"
    text = re.sub(r"\\\n *", "", core.read_text())
    ours = Path(refusals.__file__).read_text()
    for words in ("did not prove the job's key", " and could do nothing; ", "the last one "):
        assert words in text and words in ours
    assert "Duration::from_secs(60)" in text and refusals.INTERVAL_SECONDS == 60


def test_refused_connections_are_counted_with_their_address(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "HANDSHAKE_SECONDS", 0.2)
    server = Server(Registry(1, 1), KEY)
    with pytest.raises(ConnectionError):
        client(server, b"x" * 32).shutdown()
    with silent(server) as browser, silent(server) as mute:
        browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_hung_up(browser) and is_hung_up(mute)
    with silent(server):
        pass  # As a port scan does; it is no attempt.
    client(server).register_dispatcher(0, "grpc://here:1")
    for thread in threading.enumerate():
        if thread.name == "hvd-data-answer":
            thread.join(10)
    server.close()
    first, rest = caplog.messages
    assert first.startswith("hvd-data-service: 1 connection did not prove the job's key"), first
    assert "from 127.0.0.1: digest" in first, first
    assert rest.startswith("hvd-data-service: 2 connections did not prove the job's key"), rest
    assert "the last one from 127.0.0.1: it did not prove the key in time" in rest, rest


def test_running_out_of_files_closes_no_door(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = threading.Event()
    wait = server._closed.wait

    def note_and_wait(timeout: float) -> bool:
        paused.set()
        return wait(timeout)

    monkeypatch.setattr(server._closed, "wait", note_and_wait)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as visitor:
        # The lowest number that is free is the next one to be given out.
        with socket.socket() as next_one:
            number = next_one.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
        try:
            visitor.connect(server.addresses[0])
            assert paused.wait(10)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    client(server).register_dispatcher(0, "grpc://here:1")


def test_it_listens_where_it_was_told_to_only(server: Server) -> None:
    ((host, port),) = server.addresses
    assert host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)
    several = Server(Registry(1, 1), KEY, ["127.0.0.3", "192.0.2.1", "127.0.0.1"])
    assert [host for host, _ in several.addresses] == ["127.0.0.3", "127.0.0.1"]
    several.close()


def test_a_service_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "HANDSHAKE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        asking = ComputeClient([mute.getsockname()], KEY, 10)
        with pytest.raises(ConnectionError, match=r"cannot be reached at 127\.0\.0\.1:"):
            asking.shutdown()
