"""Data loaders: batches read ahead by a thread are those of the loader, epoch after epoch."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from horovod.data import AsyncDataLoaderMixin, BaseDataLoader


class Numbers(BaseDataLoader):
    """Counts on from epoch to epoch, three batches each; may fail at a number."""

    def __init__(self, fail_at: int = -1) -> None:
        self.next = 0
        self.fail_at = fail_at
        self.read = threading.Semaphore(0)

    def __len__(self) -> int:
        return 3

    def _iterate(self) -> Iterator[int]:
        for _ in range(3):
            if self.next == self.fail_at:
                self.fail_at = -1
                raise RuntimeError(f"no batch {self.next}")
            self.next += 1
            self.read.release()
            yield self.next - 1

    def _process_batch(self, batch: int) -> str:
        return f"batch {batch}"


class AsyncNumbers(AsyncDataLoaderMixin, Numbers):
    pass


def batches(*numbers: int) -> list[str]:
    return [f"batch {number}" for number in numbers]


@pytest.mark.parametrize("queue_size", [0, 1, 2, 64])
def test_epochs(queue_size: int) -> None:
    loader = AsyncNumbers(queue_size)
    assert len(loader) == 3
    assert list(loader) == batches(0, 1, 2)
    assert list(loader) == batches(3, 4, 5)
    loader.close_async_loader()


def test_without_the_mixin() -> None:
    assert list(Numbers()) == batches(0, 1, 2)


def test_reads_ahead_into_the_next_epoch() -> None:
    loader = AsyncNumbers(async_loader_queue_size=8)
    assert list(loader) == batches(0, 1, 2)
    assert all(loader.read.acquire(timeout=30) for _ in range(6))
    loader.close_async_loader()


def test_no_thread_before_the_first_iteration_nor_after_the_end() -> None:
    def threads() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name == "hvd-data-loader"]

    loader = AsyncNumbers(1)
    assert not threads()
    next(iter(loader))
    assert threads()
    loader.close_async_loader()
    assert not threads()
    loader.close_async_loader()


@pytest.mark.parametrize("queue_size", [0, 2])
def test_an_error_is_raised_where_the_batches_are_used(queue_size: int) -> None:
    loader = AsyncNumbers(queue_size, False, 4)
    assert list(loader) == batches(0, 1, 2)
    used = []
    with pytest.raises(RuntimeError, match="no batch 4"):
        used.extend(loader)
    assert list(loader) == batches(4, 5, 6)
    loader.close_async_loader()


def test_an_iteration_left_early_is_continued() -> None:
    loader = AsyncNumbers(2)
    assert next(iter(loader)) == "batch 0"
    assert list(loader) == batches(1, 2)
    loader.close_async_loader()


def test_the_thread_can_be_watched(capfd: pytest.CaptureFixture[str]) -> None:
    loader = AsyncNumbers(1, debug_data_loader=True)
    list(loader)
    loader.close_async_loader()
    assert "AsyncNumbers ends" in capfd.readouterr().err
