"""Gradients of the differentiable collectives on PyTorch tensors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.float64, requires_grad=True)


def test_allreduce() -> None:
    for op, expected in [(hvd.Sum, hvd.size()), (hvd.Average, 1)]:
        tensor = leaf(5, 3)
        hvd.allreduce(tensor, op=op).sum().backward()
        assert torch.equal(tensor.grad, torch.full((5, 3), expected, dtype=torch.float64))


def test_allreduce_scaling_and_compression() -> None:
    tensor = leaf(5)
    reduced = hvd.allreduce(
        tensor,
        op=hvd.Sum,
        prescale_factor=0.5,
        postscale_factor=4.0,
        compression=hvd.Compression.fp16,
    )
    assert reduced.dtype == torch.float64
    assert torch.equal(reduced, torch.full((5,), 2.0 * hvd.size(), dtype=torch.float64))
    reduced.sum().backward()
    assert torch.equal(tensor.grad, torch.full((5,), 2.0 * hvd.size(), dtype=torch.float64))


def test_allgather_of_different_numbers_of_rows() -> None:
    tensor = leaf(hvd.rank() + 1, 3)
    gathered = hvd.allgather(tensor)
    of_rank = [torch.full((rank + 1, 3), float(rank)) for rank in range(hvd.size())]
    gathered.backward(torch.cat(of_rank).double())
    assert torch.equal(tensor.grad, torch.full_like(tensor, float(hvd.rank())))


def test_broadcast() -> None:
    for root in range(hvd.size()):
        tensor = leaf(5, 3)
        hvd.broadcast(tensor, root).sum().backward()
        expected = 1.0 if hvd.rank() == root else 0.0
        assert torch.equal(tensor.grad, torch.full_like(tensor, expected))


def test_alltoall() -> None:
    tensor = leaf(2 * hvd.size(), 3)
    received = hvd.alltoall(tensor)
    received.backward(torch.full_like(received, float(hvd.rank())))
    expected = torch.arange(hvd.size(), dtype=torch.float64).repeat_interleave(2)
    assert torch.equal(tensor.grad, expected[:, None].expand(-1, 3))


def test_alltoall_rows_that_stay_have_no_gradient() -> None:
    tensor = leaf(hvd.size() * (hvd.rank() + 1) + 2, 3)
    received, splits = hvd.alltoall(tensor, [hvd.rank() + 1] * hvd.size())
    assert not splits.requires_grad
    received.sum().backward()
    assert torch.equal(tensor.grad[:-2], torch.ones_like(tensor[:-2]))
    assert torch.equal(tensor.grad[-2:], torch.zeros_like(tensor[-2:]))


def test_reducescatter() -> None:
    for op, expected in [(hvd.Sum, hvd.size()), (hvd.Average, 1)]:
        tensor = leaf(2 * hvd.size() + 1, 3)
        hvd.reducescatter(tensor, op=op, prescale_factor=0.5).sum().backward()
        assert torch.equal(tensor.grad, torch.full_like(tensor, expected * 0.5))


def test_gradients_need_not_be_contiguous() -> None:
    tensor = leaf(hvd.size(), 3)
    total = sum(
        operation(tensor).t()[0].sum()
        for operation in (
            hvd.allreduce,
            hvd.allgather,
            lambda x: hvd.broadcast(x, 0),
            hvd.alltoall,
            hvd.reducescatter,
        )
    )
    total.backward()
    assert tensor.grad.shape == tensor.shape
