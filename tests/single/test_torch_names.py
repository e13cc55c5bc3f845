"""The names of tensors in a job of one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


def test_more_names_than_are_kept_ready() -> None:
    tensor = torch.ones(1)
    for step in range(9000):
        hvd.allreduce_(tensor, name=f"loss.{step}")
    assert hvd.allreduce_(tensor, name="loss.0").item() == 1.0


def test_a_tensor_lives_until_its_operation_has_ended() -> None:
    handles = [hvd.allreduce_async_(torch.full((100,), float(n)), name=f"{n}") for n in range(50)]
    for n, handle in enumerate(handles):
        assert torch.equal(hvd.synchronize(handle), torch.full((100,), float(n)))
