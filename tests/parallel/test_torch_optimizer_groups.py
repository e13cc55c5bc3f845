"""DistributedOptimizer with gradients that travel in groups, or only within a process set."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from frameworks import even_and_odd

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402
from horovod import _core  # noqa: E402

STEPS = 4


def new_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)
    ).double()


def loss_of(model: torch.nn.Module, step: int, ranks: list[int]) -> torch.Tensor:
    """The mean loss over the batches that some ranks have."""
    losses = []
    for rank in ranks:
        generator = torch.Generator().manual_seed(1000 * step + rank)
        inputs = torch.randn(4, 6, dtype=torch.float64, generator=generator)
        losses.append(model(inputs).square().mean())
    return torch.stack(losses).mean()


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model: torch.nn.Module, optimizer: Any, ranks: list[int]) -> torch.nn.Module:
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, ranks).backward()
        optimizer.step()
    return model


def trained_alone(ranks: list[int]) -> torch.nn.Module:
    model = new_model()
    return train(model, sgd(model), ranks)


def assert_same(model: torch.nn.Module, expected: torch.nn.Module) -> None:
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=1e-12, atol=1e-12)


def names_of_groups(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Collects the name and the number of tensors of every group that is started."""
    started = []
    original = _core.grouped_allreduce

    def grouped_allreduce(name: str, inputs: list[int], *rest: Any) -> list[int]:
        started.append((name, len(inputs)))
        return original(name, inputs, *rest)

    monkeypatch.setattr(_core, "grouped_allreduce", grouped_allreduce)
    return started


GROUPS: dict[str, Callable[[torch.nn.Module], Any]] = {
    "one": lambda model: 1,
    "two": lambda model: 2,
    "more than parameters": lambda model: 9,
    "lists": lambda model: [[model[2].bias, model[0].weight], [model[0].bias]],
    "a parameter of another model": lambda model: [
        [torch.nn.Parameter(torch.ones(1)), *model[0].parameters()]
    ],
}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
@pytest.mark.parametrize("options", [{}, {"gradient_predivide_factor": 2.0}], ids=str)
def test_groups_equal_one_process(groups: Callable[[Any], Any], options: dict[str, Any]) -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(
        sgd(model), model.named_parameters(), groups=groups(model), **options
    )
    train(model, optimizer, [hvd.rank()])
    assert_same(model, trained_alone(list(range(hvd.size()))))


@pytest.mark.usefixtures("several_ranks")
def test_a_group_is_named_after_its_first_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    started = names_of_groups(monkeypatch)
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), groups=2)
    loss_of(model, 0, [hvd.rank()]).backward()
    expected = [("0.weight", 2), ("2.weight", 2)]
    assert sorted(started) == expected
    optimizer.step()
    assert sorted(started) == expected


@pytest.mark.usefixtures("several_ranks")
def test_the_first_rank_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    started = names_of_groups(monkeypatch)
    model = new_model()
    order = list(model.parameters())
    groups = [order[:2], order[2:]] if hvd.rank() == 0 else [order[::-1]]
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), groups=groups)
    train(model, optimizer, [hvd.rank()])
    assert set(started) == {("0.weight", 2), ("2.weight", 2)}
    assert_same(model, trained_alone(list(range(hvd.size()))))


def test_num_groups_is_deprecated() -> None:
    model = new_model()
    with pytest.warns(DeprecationWarning, match="num_groups"):
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), num_groups=2)
    train(model, optimizer, [hvd.rank()])
    assert_same(model, trained_alone(list(range(hvd.size()))))
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="greater than 0"):
        hvd.DistributedOptimizer(sgd(model), model.named_parameters(), num_groups=-1)


def test_ranks_use_different_parts_of_a_group() -> None:
    torch.manual_seed(1)
    parts = torch.nn.ModuleList([torch.nn.Linear(3, 1) for _ in range(2)])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, parts.named_parameters(), groups=1)
    for _ in range(3):
        optimizer.zero_grad()
        parts[hvd.rank() % 2](torch.ones(1, 3)).sum().backward()
        optimizer.step()
    weights = hvd.allgather_object([parameter.tolist() for parameter in parts.parameters()])
    assert weights == [weights[0]] * hvd.size()


@pytest.mark.usefixtures("several_ranks")
def test_backward_passes_of_a_group() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(
        sgd(model), model.named_parameters(), groups=1, backward_passes_per_step=2
    )
    for _ in range(2):
        loss_of(model, 0, [hvd.rank()]).backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, 0, [hvd.rank()]).backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_sparse_gradients_in_a_group(sparse_as_dense: bool) -> None:
    torch.manual_seed(1)
    model = torch.nn.ModuleList([torch.nn.Embedding(5, 3, sparse=True), torch.nn.Linear(3, 1)])
    alone = copy.deepcopy(model)

    def loss(model: torch.nn.ModuleList, ranks: list[int]) -> torch.Tensor:
        return model[1](model[0](torch.tensor([[0, rank + 1] for rank in ranks]))).sum()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), groups=1, sparse_as_dense=sparse_as_dense
    )
    loss(model, [hvd.rank()]).backward()
    optimizer.step()
    (loss(alone, list(range(hvd.size()))) / hvd.size()).backward()
    torch.optim.SGD(alone.parameters(), lr=0.1).step()
    for parameter, expected in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(parameter, expected)


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.dynamic_process_sets
@pytest.mark.parametrize("groups", [None, 2])
def test_ranks_outside_of_the_set_keep_their_gradients(groups: int | None) -> None:
    even, odd = even_and_odd(hvd)
    for members in (even, odd):
        model = new_model()
        optimizer = hvd.DistributedOptimizer(
            sgd(model), model.named_parameters(), groups=groups, process_set=members
        )
        train(model, optimizer, [hvd.rank()])
        assert_same(model, trained_alone(members.ranks if members.included() else [hvd.rank()]))


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.dynamic_process_sets
def test_sparse_allreduce_on_a_set() -> None:
    members = even_and_odd(hvd)[hvd.rank() % 2]
    for op, divisor in [(hvd.Sum, 1), (hvd.Average, members.size())]:
        dense = torch.zeros(8, 2)
        dense[hvd.rank()] = hvd.rank() + 1.0
        dense[7] = 1.0
        wait = hvd.sparse_allreduce_async(dense.to_sparse(1), "x", op, process_set=members)
        expected = torch.zeros(8, 2)
        for rank in members.ranks:
            expected[rank] = (rank + 1.0) / divisor
        expected[7] = members.size() / divisor
        torch.testing.assert_close(wait().to_dense(), expected)
