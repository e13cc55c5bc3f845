"""Gradients of the differentiable collectives on PyTorch tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from frameworks import even_and_odd

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


def test_grouped_allreduce() -> None:
    for op, expected in [(hvd.Sum, hvd.size()), (hvd.Average, 1)]:
        tensors = [leaf(5, 3), leaf(2)]
        results = hvd.grouped_allreduce(tensors, op=op, prescale_factor=0.5)
        (results[0].sum() + 3 * results[1].sum()).backward()
        assert torch.equal(tensors[0].grad, torch.full_like(tensors[0], expected * 0.5))
        assert torch.equal(tensors[1].grad, torch.full_like(tensors[1], expected * 1.5))


def test_a_group_with_integers_and_an_unused_result() -> None:
    tensors = [torch.ones(2, dtype=torch.int64), leaf(3), leaf(4)]
    for operation in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        tensors[1].grad = tensors[2].grad = None
        results = operation(tensors)
        assert [result.requires_grad for result in results] == [False, True, True]
        results[1].sum().backward()
        assert torch.equal(tensors[2].grad, torch.zeros_like(tensors[2]))
        assert torch.equal(tensors[1].grad, torch.ones_like(tensors[1]))


def test_a_group_with_complex_numbers() -> None:
    tensors = [leaf(2), torch.full((3,), 1 + 2j, dtype=torch.complex128, requires_grad=True)]
    for operation in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        tensors[1].grad = None
        operation(tensors)[1].real.sum().backward()
        assert torch.equal(tensors[1].grad, torch.ones_like(tensors[1]))


def test_grouped_allreduce_compression() -> None:
    tensors = [leaf(5), leaf(2).detach().float().requires_grad_()]
    results = hvd.grouped_allreduce(tensors, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert [result.dtype for result in results] == [torch.float64, torch.float32]
    results[0].sum().backward()
    assert torch.equal(tensors[0].grad, torch.full_like(tensors[0], hvd.size()))


def test_grouped_allgather_of_different_numbers_of_rows() -> None:
    tensors = [leaf(hvd.rank() + 1, 3), leaf(hvd.size() - hvd.rank())]
    first, second = hvd.grouped_allgather(tensors)
    ranks = torch.arange(hvd.size(), dtype=torch.float64)
    weights = ranks.repeat_interleave(torch.arange(hvd.size()) + 1)
    other_weights = ranks.repeat_interleave(hvd.size() - torch.arange(hvd.size()))
    ((first * weights[:, None]).sum() + (second * other_weights).sum()).backward()
    for tensor in tensors:
        assert torch.equal(tensor.grad, torch.full_like(tensor, float(hvd.rank())))


def test_grouped_reducescatter() -> None:
    for op, expected in [(hvd.Sum, hvd.size()), (hvd.Average, 1)]:
        tensors = [leaf(2 * hvd.size() + 1, 3), leaf(hvd.size())]
        results = hvd.grouped_reducescatter(tensors, op=op, postscale_factor=0.5)
        sum(result.sum() for result in results).backward()
        for tensor in tensors:
            assert torch.equal(tensor.grad, torch.full_like(tensor, expected * 0.5))


def test_in_place_groups_are_not_differentiable() -> None:
    tensor = torch.ones(3)
    (result,) = hvd.grouped_allreduce_([tensor], op=hvd.Sum)
    assert result is tensor
    assert not result.requires_grad


ON_SETS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[hvd.ProcessSet], float]]] = {
    "allreduce": (
        lambda tensor, members: hvd.allreduce(tensor, op=hvd.Sum, process_set=members),
        lambda members: members.size(),
    ),
    "grouped allreduce": (
        lambda tensor, members: hvd.grouped_allreduce([tensor], op=hvd.Sum, process_set=members)[0],
        lambda members: members.size(),
    ),
    "allgather": (
        lambda tensor, members: hvd.allgather(tensor, process_set=members),
        lambda members: 1,
    ),
    "grouped allgather": (
        lambda tensor, members: hvd.grouped_allgather([tensor], process_set=members)[0],
        lambda members: 1,
    ),
    "broadcast": (
        lambda tensor, members: hvd.broadcast(tensor, members.ranks[-1], process_set=members),
        lambda members: float(hvd.rank() == members.ranks[-1]),
    ),
    "alltoall": (
        lambda tensor, members: hvd.alltoall(tensor, [1] * members.size(), process_set=members)[0],
        lambda members: 1,
    ),
    "reducescatter": (
        lambda tensor, members: hvd.reducescatter(tensor, op=hvd.Sum, process_set=members),
        lambda members: members.size(),
    ),
    "grouped reducescatter": (
        lambda tensor, members: hvd.grouped_reducescatter(
            [tensor], op=hvd.Sum, process_set=members
        )[0],
        lambda members: members.size(),
    ),
}


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.dynamic_process_sets
@pytest.mark.parametrize("name", ON_SETS)
def test_on_process_sets(name: str) -> None:
    operation, expected = ON_SETS[name]
    members = even_and_odd(hvd)[hvd.rank() % 2]
    tensor = leaf(members.size(), 3)
    operation(tensor, members).sum().backward()
    assert torch.equal(tensor.grad, torch.full_like(tensor, float(expected(members))))


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.dynamic_process_sets
def test_allgather_of_different_numbers_of_rows_on_a_set() -> None:
    members = even_and_odd(hvd)[hvd.rank() % 2]
    tensors = [leaf(hvd.rank() + 1, 3) for _ in range(2)]
    of_rank = [torch.full((rank + 1, 3), float(rank)) for rank in members.ranks]
    weights = torch.cat(of_rank).double()
    hvd.allgather(tensors[0], process_set=members).backward(weights)
    (gathered,) = hvd.grouped_allgather(tensors[1:], process_set=members)
    gathered.backward(weights)
    for tensor in tensors:
        assert torch.equal(tensor.grad, torch.full_like(tensor, float(hvd.rank())))


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
