"""Tensors that have to be copied to the host first, with a type of tensor in place of a GPU's.

What is checked is that every operation copies, and where results go; the copies themselves, which
need a GPU, are replaced.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402
from horovod.torch import staging, tensors  # noqa: E402
from horovod.torch.ops import grouped_allreduce  # noqa: E402


class Remote(torch.Tensor):
    """A tensor that the engine must not see."""


def remote(tensor: torch.Tensor) -> Remote:
    return tensor.clone().as_subclass(Remote)


@pytest.fixture(autouse=True)
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def to_host(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().as_subclass(torch.Tensor).clone()

    def to_device(host: torch.Tensor, device: Any) -> torch.Tensor:
        return remote(host)

    def copy_into(host: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        target.detach().copy_(host)
        return target

    replacements = {
        "is_on_gpu": lambda tensor: isinstance(tensor, Remote),
        "to_host": to_host,
        "to_device": to_device,
        "copy_into": copy_into,
    }
    for name, function in replacements.items():
        monkeypatch.setattr(staging, name, function)
    view = tensors.view

    def checked_view(tensor: torch.Tensor) -> Any:
        assert not isinstance(tensor, Remote)
        return view(tensor)

    for module in (tensors, grouped_allreduce):
        monkeypatch.setattr(module, "view", checked_view)


OPERATIONS = {
    "allreduce": lambda x: hvd.allreduce_async(x, op=hvd.Sum),
    "allreduce in place": lambda x: hvd.allreduce_async_(x, op=hvd.Sum),
    "allgather": lambda x: hvd.allgather_async(x),
    "broadcast": lambda x: hvd.broadcast_async(x, 0),
    "broadcast in place": lambda x: hvd.broadcast_async_(x, 0),
    "alltoall": lambda x: hvd.alltoall_async(x, [1] * hvd.size()),
    "reducescatter": lambda x: hvd.reducescatter_async(x, op=hvd.Sum),
    "grouped allreduce": lambda x: hvd.grouped_allreduce_async([x, x], op=hvd.Sum),
    "grouped allreduce in place": lambda x: hvd.grouped_allreduce_async_([x], op=hvd.Sum),
    "grouped allgather": lambda x: hvd.grouped_allgather_async([x, x]),
    "grouped reducescatter": lambda x: hvd.grouped_reducescatter_async([x, x]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    values = torch.arange(hvd.size() * 3.0).reshape(-1, 3) + hvd.rank()
    source = remote(values)
    result = hvd.synchronize(OPERATIONS[name](source))
    expected = hvd.synchronize(OPERATIONS[name](values.clone()))
    first, first_expected = result, expected
    if isinstance(result, (list, tuple)):
        first, first_expected = result[0], expected[0]
    assert isinstance(first, Remote)
    assert torch.equal(first.as_subclass(torch.Tensor), first_expected)
    assert (first is source) == name.endswith("in place")
    if name == "alltoall":
        assert torch.equal(result[1], expected[1])
    if not name.endswith("in place"):
        assert torch.equal(source.as_subclass(torch.Tensor), values)


def test_a_group_is_on_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "is_on_gpu", lambda tensor: tensor.device.type == "meta")
    with pytest.raises(RuntimeError, match="one device, not on cpu, meta"):
        hvd.grouped_allreduce([torch.ones(2), torch.ones(2, device="meta")])
