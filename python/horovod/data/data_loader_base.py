"""The interface of data loaders, and a mixin that runs one in a thread of its own."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from horovod.data.bounded_queue import BoundedQueue

_END_OF_EPOCH = object()


class _Failure:
    """An exception on its way from the thread to the iterating caller."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class BaseDataLoader(ABC):
    """Yields the batches of one epoch each time it is iterated over."""

    @abstractmethod
    def __len__(self) -> int:
        """How many batches an epoch has."""

    @abstractmethod
    def _iterate(self) -> Iterator[Any]:
        """Yields the batches of one epoch."""

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)

    def _process_batch(self, batch: Any) -> Any:
        """What is done to a batch where it is used, for instance moving it to a device."""
        return batch


class AsyncDataLoaderMixin:
    """Reads batches ahead: put it in front of a loader class in the list of bases.

        class FastLoader(AsyncDataLoaderMixin, SlowLoader): ...

    A thread repeats the loader's epochs into a queue, beginning with the first iteration, so the
    next epoch is being read while this one is used. An exception of the loader is raised where
    the batches are used. An iteration that is left early is continued by the next one.
    """

    def __init__(
        self,
        async_loader_queue_size: int = 64,
        debug_data_loader: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """At most `async_loader_queue_size` batches are read ahead; 0 means without a thread.

        `debug_data_loader` tells on standard error when the thread begins and ends. The other
        arguments are the loader's.
        """
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._queue = BoundedQueue(async_loader_queue_size)
        self._thread: threading.Thread | None = None
        super().__init__(*args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()  # type: ignore[misc]
            return
        if self._thread is None:
            self._start()
        while (item := self._queue.get()) is not _END_OF_EPOCH:
            if isinstance(item, _Failure):
                self.close_async_loader()
                raise item.error
            yield self._process_batch(item)  # type: ignore[attr-defined]

    def close_async_loader(self) -> None:
        """Stops the thread and drops what it has read; iterating starts a new one."""
        if self._thread is not None:
            self._queue.close()
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        self._queue = BoundedQueue(self.async_loader_queue_size)
        self._thread = threading.Thread(
            target=self._read_ahead, args=(self._queue,), name="hvd-data-loader", daemon=True
        )
        self._thread.start()

    def _read_ahead(self, queue: BoundedQueue) -> None:
        self._debug("begins to read ahead")
        try:
            while queue.put_all(self._iterate()):  # type: ignore[attr-defined]
                if not queue.put(_END_OF_EPOCH):
                    break
        except Exception as error:
            queue.put(_Failure(error))
        self._debug("ends")

    def _debug(self, text: str) -> None:
        if self.debug_data_loader:
            print(f"data loader {type(self).__name__} {text}", file=sys.stderr)
