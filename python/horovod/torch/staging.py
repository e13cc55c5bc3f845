"""Tensors on a GPU: copied through pinned memory of the host, on a stream of their own.

The engine works on the host's memory. A tensor's copy begins when what the current stream has
queued so far is done, and does not hold up what is queued afterwards. The result's copy runs on
the same stream; the current stream waits for it, the host does not. Not yet run on hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Whether a tensor has to be copied before the engine can use it."""
    return isinstance(tensor, torch.Tensor) and tensor.is_cuda


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A complete copy in pinned memory; refuses what the engine would refuse."""
    if not tensor.is_contiguous():
        raise ValueError("tensor is required to be contiguous; use tensor.contiguous()")
    tensor = tensor.detach()
    stream = _side_stream(tensor.device)
    stream.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(stream):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        # Its memory must not be given to others before this stream has read it.
        tensor.record_stream(stream)
    # The engine reads the copy as soon as it knows of it.
    stream.synchronize()
    return host


def to_device(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy on the GPU of what the engine has computed."""
    return copy_into(host, torch.empty(host.shape, dtype=host.dtype, device=device))


def copy_into(host: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Overwrites a tensor on the GPU with what the engine has computed, and returns it."""
    stream = _side_stream(target.device)
    current = torch.cuda.current_stream(target.device)
    # Whatever was queued before still sees the old content.
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        target.detach().copy_(host, non_blocking=True)
        target.record_stream(stream)
    current.wait_stream(stream)
    return target


def all_to_device(hosts: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Copies of a group's results on the GPU."""
    return [to_device(host, device) for host in hosts]


def all_copied_into(
    hosts: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Overwrites a group of tensors on the GPU and returns them."""
    return [copy_into(host, target) for host, target in zip(hosts, targets)]


def rows_to_device(result: tuple[Any, Any], device: torch.device, splits: Any) -> tuple[Any, Any]:
    """The result of an alltoall, whose received splits are where the splits are."""
    rows, received_splits = result
    if isinstance(splits, torch.Tensor):
        received_splits = received_splits.to(splits.device)
    return to_device(rows, device), received_splits


def group_device(tensors: Sequence[torch.Tensor]) -> torch.device | None:
    """The GPU that a group is on; None if it is not on any."""
    if not any(is_on_gpu(tensor) for tensor in tensors):
        return None
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        names = ", ".join(sorted(str(device) for device in devices))
        raise RuntimeError(f"the tensors of a group must be on one device, not on {names}")
    return tensors[0].device


@cache
def _side_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)
