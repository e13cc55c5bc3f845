"""Where dispatchers and workers of a data service find each other.

One process serves; the others ask over connections that prove the key of the configuration. A
question may wait, for a bounded time, for what others are to register.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

Address = tuple[str, int]


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
    """Answers questions to a registry until it is closed."""

    def __init__(self, registry: Registry, key: bytes) -> None:
        self._registry = registry
        self._listener = Listener(("", 0), authkey=key)
        self._closed = False
        threading.Thread(target=self._accept, name="hvd-data-service", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens, on all addresses of this host."""
        return self._listener.address[1]

    def close(self) -> None:
        """Takes no more questions."""
        self._closed = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = self._listener.accept()
            except (OSError, EOFError, AuthenticationError):
                # A stranger, or the end.
                continue
            threading.Thread(
                target=self._answer, args=(connection,), name="hvd-data-answer", daemon=True
            ).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            try:
                question, arguments = json.loads(connection.recv_bytes())
                if question not in QUESTIONS:
                    raise ValueError(f"{question!r} is not a question")
                reply = {"result": getattr(self._registry, question)(*arguments)}
            except (OSError, EOFError):
                return
            except (ValueError, KeyError, TypeError, TimeoutError) as error:
                reply = {"error": type(error).__name__, "text": str(error)}
            connection.send_bytes(json.dumps(reply).encode())


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
                return Client((address[0], address[1]), authkey=self._key)
            except (OSError, EOFError) as error:
                errors.append(f"{address[0]}:{address[1]}: {error}")
            if time.monotonic() > end:
                break
        raise ConnectionError(f"the data service cannot be reached at {'; '.join(errors)}")
