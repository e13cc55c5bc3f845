"""Where dispatchers and workers of a data service find each other.

One process serves; the others ask over connections that prove the key of the configuration. A
question may wait, for a bounded time, for what others are to register.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, cast

from horovod.tensorflow.data.refusals import Refusals

Address = tuple[str, int]

LOOPBACK = "127.0.0.1"
HANDSHAKE_SECONDS = 5.0
"""How long a connection may take to prove the key and to ask."""
HANDSHAKES = 256
"""How many connections may be that far."""
PAUSE_SECONDS = 0.1
"""After a connection that could not be taken."""
QUESTION_LIMIT = 64 << 10
"""Bytes of a question."""
TOO_SLOW = "it did not prove the key in time"
CROWDED = "too many connections are about to prove the key at once, and this was the oldest"


class Registry:
    """What has been registered, and ways to wait for it."""

    def __init__(self, dispatchers: int, workers_per_dispatcher: int) -> None:
        self._workers_needed = workers_per_dispatcher
        self._changed = threading.Condition()
        self._dispatchers: dict[int, str] = {}
        self._workers: dict[int, set[int]] = {number: set() for number in range(dispatchers)}
        self._over = False

    def register_dispatcher(self, number: int, address: str) -> None:
        """A dispatcher listens at an address."""
        with self._changed:
            if self._dispatchers.setdefault(number, address) != address:
                raise ValueError(f"dispatcher {number} is registered already, with another address")
            self._changed.notify_all()

    def dispatcher(self, number: int, timeout: float) -> str:
        """The address of a dispatcher, as soon as there is one."""
        self._wait(lambda: number in self._dispatchers, timeout, f"dispatcher {number}")
        return self._dispatchers[number]

    def register_worker(self, number: int, worker: int) -> None:
        """A worker serves a dispatcher."""
        with self._changed:
            self._workers[number].add(worker)
            self._changed.notify_all()

    def workers(self, number: int, timeout: float) -> int:
        """The number of workers of a dispatcher, as soon as all are there."""
        needed = self._workers_needed
        self._wait(
            lambda: len(self._workers[number]) >= needed, timeout, f"workers of dispatcher {number}"
        )
        return needed

    def shutdown(self) -> None:
        """The service is not needed any more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def is_over(self, timeout: float) -> bool:
        """Whether the service is not needed any more, after waiting for that for a while."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over, timeout)

    def _wait(self, is_there: Callable[[], bool], timeout: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(is_there, timeout):
                raise TimeoutError(f"the {what} did not come within {timeout:g} seconds")


QUESTIONS = (
    "register_dispatcher",
    "dispatcher",
    "register_worker",
    "workers",
    "shutdown",
    "is_over",
)


class Server:
    """Answers questions to a registry until it is closed, at each of the given hosts' addresses.

    A thread per connection authenticates the client, so that a slow client delays no other. A
    connection has `HANDSHAKE_SECONDS` to prove the key and send its request; at most `HANDSHAKES`
    may be unauthenticated at a time, and the oldest is closed for a new one. Those that do not
    prove the key are counted and logged with their address.
    """

    def __init__(self, registry: Registry, key: bytes, hosts: Iterable[str] = (LOOPBACK,)) -> None:
        self._registry = registry
        self._key = key
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._unauthenticated: dict[Connection, float] = {}
        """Connections that have not proved the key, oldest first, with their deadlines."""
        self._shut_down_because: dict[Connection, str] = {}
        """Why such connections were shut down, until their threads have noticed."""
        self._refusals = Refusals("hvd-data-service")
        self._listening = _listen(hosts)
        self._selector = selectors.DefaultSelector()
        for listening in self._listening:
            self._selector.register(listening, selectors.EVENT_READ)
        threading.Thread(target=self._serve, name="hvd-data-service", daemon=True).start()

    @property
    def addresses(self) -> list[Address]:
        """The addresses that it listens at."""
        return [listening.getsockname()[:2] for listening in self._listening]

    def close(self) -> None:
        """Stops accepting requests."""
        self._closed.set()
        for listening in self._listening:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # ends the wait for it
            listening.close()
        self._refusals.close()

    def _serve(self) -> None:
        with self._selector:
            while not self._closed.is_set():
                for ready, _ in self._selector.select(self._next_timeout()):
                    self._accept(cast(socket.socket, ready.fileobj))
                self._close_due(lambda until: until <= time.monotonic(), TOO_SLOW)

    def _next_timeout(self) -> float | None:
        """Seconds until the earliest deadline; None without unauthenticated connections."""
        with self._lock:
            until = next(iter(self._unauthenticated.values()), None)
        return None if until is None else max(0.0, until - time.monotonic())

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, peer = listening.accept()
            connection = Connection(accepted.detach())
        except OSError:
            # The other side has gone, this one is being closed, or there are no files left; then
            # it makes no sense to try at once, and connections wait in the queue.
            self._closed.wait(PAUSE_SECONDS)
            return
        with self._lock:
            self._unauthenticated[connection] = time.monotonic() + HANDSHAKE_SECONDS
            surplus = len(self._unauthenticated) - HANDSHAKES
        if surplus > 0:
            self._close_due(lambda until: True, CROWDED, surplus)
        try:
            threading.Thread(
                target=self._answer, args=(connection, peer[0]), name="hvd-data-answer", daemon=True
            ).start()
        except RuntimeError:  # no threads left
            self._forget(connection)
            connection.close()
            self._closed.wait(PAUSE_SECONDS)

    def _close_due(
        self, is_due: Callable[[float], bool], reason: str, most: int | None = None
    ) -> None:
        """Shuts down the oldest unauthenticated connections; their threads close them."""
        with self._lock:
            due = [each for each, until in self._unauthenticated.items() if is_due(until)][:most]
            for connection in due:
                del self._unauthenticated[connection]
                self._shut_down_because[connection] = reason
                _shut_down(connection)

    def _forget(self, connection: Connection) -> str | None:
        """Removes a connection from the unauthenticated ones; says why it was shut down, if so."""
        with self._lock:
            self._unauthenticated.pop(connection, None)
            return self._shut_down_because.pop(connection, None)

    def _answer(self, connection: Connection, peer: str) -> None:
        with connection:
            content = self._question(connection, peer)
            if content is not None:
                reply = self._reply(content)
                with contextlib.suppress(OSError):
                    connection.send_bytes(json.dumps(reply).encode())

    def _question(self, connection: Connection, peer: str) -> bytes | None:
        """The request of an authenticated client; None if it fails to prove the key in time."""
        content = failure = None
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            content = connection.recv_bytes(QUESTION_LIMIT)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            pass  # It left without an answer, like a port scan, or after its proof.
        except (OSError, AuthenticationError, ValueError) as error:
            failure = str(error)
        finally:
            shut_down = self._forget(connection)
        refusal = shut_down or failure
        if refusal is None:
            return content
        if not self._closed.is_set():
            self._refusals.refuse(peer, refusal)
        return None

    def _reply(self, content: bytes) -> dict[str, Any]:
        try:
            question, arguments = json.loads(content)
            if question not in QUESTIONS:
                raise ValueError(f"{question!r} is not a question")
            return {"result": getattr(self._registry, question)(*arguments)}
        except (ValueError, KeyError, TypeError, TimeoutError) as error:
            return {"error": type(error).__name__, "text": str(error)}


def _listen(hosts: Iterable[str]) -> list[socket.socket]:
    """Listens at addresses of this host; at the loopback address alone if there are no others."""
    listening = []
    for host in hosts:
        with contextlib.suppress(OSError):  # an address that other hosts use for this one
            listening.append(socket.create_server((host, 0), backlog=socket.SOMAXCONN))
    return listening or [socket.create_server((LOOPBACK, 0), backlog=socket.SOMAXCONN)]


def _shut_down(connection: Connection) -> None:
    """Ends what waits for the other side, in whatever thread."""
    same = socket.socket(fileno=connection.fileno())
    try:
        with contextlib.suppress(OSError):
            same.shutdown(socket.SHUT_RDWR)
    finally:
        same.detach()


class ComputeClient:
    """Asks the registry of a data service, wherever it is."""

    def __init__(self, addresses: Sequence[Address], key: bytes, timeout: float) -> None:
        self._addresses = addresses
        self._key = key
        self._timeout = timeout

    def register_dispatcher(self, number: int, address: str) -> None:
        """A dispatcher of this process listens at an address."""
        self._ask("register_dispatcher", number, address)

    def wait_for_dispatcher_registration(self, number: int, timeout: float) -> str:
        """The address of a dispatcher."""
        return self._ask("dispatcher", number, timeout)

    def register_worker_for_dispatcher(self, number: int, worker: int) -> None:
        """A worker of this process serves a dispatcher."""
        self._ask("register_worker", number, worker)

    def wait_for_dispatcher_worker_registration(self, number: int, timeout: float) -> None:
        """Returns when a dispatcher has all its workers."""
        self._ask("workers", number, timeout)

    def shutdown(self) -> None:
        """Ends the service."""
        self._ask("shutdown")

    def wait_for_shutdown(self) -> None:
        """Returns when the service has been ended, or its process has."""
        try:
            while not self._ask("is_over", 10.0):
                pass
        except ConnectionError:
            return

    def _ask(self, question: str, *arguments: Any) -> Any:
        with self._connect() as connection:
            connection.send_bytes(json.dumps([question, arguments]).encode())
            try:
                reply = json.loads(connection.recv_bytes())
            except EOFError:
                raise ConnectionError("the data service has ended") from None
        if "error" in reply:
            raise {"TimeoutError": TimeoutError}.get(reply["error"], ValueError)(reply["text"])
        return reply["result"]

    def _connect(self) -> Connection:
        end = time.monotonic() + self._timeout
        errors = []
        for address in self._addresses:
            try:
                return self._connect_to(address)
            except (OSError, EOFError, AuthenticationError) as error:
                errors.append(f"{address[0]}:{address[1]}: {error or 'it hung up'}")
            if time.monotonic() > end:
                break
        raise ConnectionError(f"the data service cannot be reached at {'; '.join(errors)}")

    def _connect_to(self, address: Address) -> Connection:
        """Connects and proves the key; OSError or EOFError if that takes too long."""
        timeout = min(self._timeout, HANDSHAKE_SECONDS)
        connected = socket.create_connection(address, timeout)
        connected.setblocking(True)
        connection = Connection(connected.detach())
        timer = threading.Timer(timeout, _shut_down, [connection])
        timer.start()
        try:
            answer_challenge(connection, self._key)
            deliver_challenge(connection, self._key)
        except BaseException:
            timer.cancel()
            timer.join()
            connection.close()
            raise
        timer.cancel()
        timer.join()
        return connection
